/** A memory cgroup of a test's own, where the machine allows one. */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { eventually } from "./eventually.ts";

export interface MemoryCgroup {
  add(pid: number): void;
  /** What its processes hold, in bytes. */
  used(): number;
}

const LIMIT_FILES = [
  // Version 1, then version 2; the second file keeps memory from going to swap instead.
  {
    root: "/sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    swap: "memory.memsw.limit_in_bytes",
    used: "memory.usage_in_bytes",
  },
  { root: "/sys/fs/cgroup", limit: "memory.max", swap: "memory.swap.max", used: "memory.current" },
] as const;

/** Why there can be none, or undefined. */
export function noMemoryCgroup(): string | undefined {
  try {
    const { folder } = make("everbeat-test-probe");
    rmdirSync(folder);
    return undefined;
  } catch (error) {
    return `no memory cgroup can be made here: ${(error as Error).message}`;
  }
}

/** With `below`, its processes are in a group without a limit, inside the one that has it. */
export function memoryCgroup(limitBytes: number, { below }: { below?: string } = {}): MemoryCgroup {
  const { folder, files } = make(`everbeat-test-${process.pid}-${Math.random().toString(36).slice(2)}`);
  onTestFinished(() => remove(folder));
  writeFileSync(join(folder, files.limit), String(limitBytes));
  if (existsSync(join(folder, files.swap))) {
    writeFileSync(join(folder, files.swap), files.swap.endsWith("max") ? "0" : String(limitBytes));
  }
  const used = () => Number(readFileSync(join(folder, files.used), "utf8"));
  if (below === undefined) return { used, add: (pid) => writeFileSync(join(folder, "cgroup.procs"), String(pid)) };
  const inner = join(folder, below);
  mkdirSync(inner);
  // Before the group around it: what is registered last is done first.
  onTestFinished(() => remove(inner));
  return { used, add: (pid) => writeFileSync(join(inner, "cgroup.procs"), String(pid)) };
}

/** A runner ends a moment after its worker, and a group with a process in it cannot be removed. */
async function remove(folder: string): Promise<void> {
  await eventually(() => readFileSync(join(folder, "cgroup.procs"), "utf8"), {
    until: (processes) => processes === "",
    what: "the end of all processes of the cgroup",
  });
  rmdirSync(folder);
}

function make(name: string): { folder: string; files: (typeof LIMIT_FILES)[number] } {
  const files = LIMIT_FILES.find(({ root }) => existsSync(join(root, "cgroup.procs")));
  if (!files) throw new Error("there is no cgroup file system");
  const folder = join(files.root, name);
  mkdirSync(folder);
  if (existsSync(join(folder, files.limit))) return { folder, files };
  rmdirSync(folder);
  throw new Error(`${readFileSync("/proc/self/cgroup", "utf8").trim()}: the memory controller is not to be had`);
}
