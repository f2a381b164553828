/** Looks at processes that a test knows by their ids. */
import { readdirSync, readFileSync } from "node:fs";
import { eventually } from "./eventually.ts";

/** Neither gone nor a zombie whose parent has not looked yet. */
export function isAlive(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2, stat.lastIndexOf(")") + 3) !== "Z";
  } catch {
    return false;
  }
}

export const gone = (pid: number) =>
  eventually(() => !isAlive(pid), { within: 20_000, what: `the end of process ${pid}` });

const SIGKILL = 0x100n;
const EXITING = 0x4;

/** Also where the kernel has its SIGKILL, or has begun to end it: the kernel takes its time for the rest, and nobody can wait for that. */
export function isOver(pid: number): boolean {
  const pending = [...readProc(pid, "status").matchAll(/^(?:Sig|Shd)Pnd:\s*(\w+)$/gm)];
  const isKilled = pending.some(([, signals]) => (BigInt(`0x${signals}`) & SIGKILL) !== 0n);
  const stat = readProc(pid, "stat");
  const flags = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[6]);
  return isKilled || (flags & EXITING) !== 0 || !isAlive(pid);
}

/** The guardian of the runner in that process. */
export function guardianOf(runner: number): number {
  const [found] = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => readProc(pid, "stat").includes(`) S ${runner} `) && readProc(pid, "cmdline").includes("guardian"));
  if (found === undefined) throw new Error(`runner ${runner} has no guardian`);
  return found;
}

function readProc(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8");
  } catch {
    return "";
  }
}
