// Starts a process that gets no open file but those that are given to it.
//
// Node closes to its children what it opens itself. What was open before it, as after `exec 200<>file; flock 200` in a script, it closes
// only among the lowest numbers: the rest is inherited by every process that it starts. Another user can take such a file of root's out of
// a process that runs as that user, and a server that goes on after the command would go on holding the command's locks.
import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";
import { closeSync, openSync, readdirSync, readFileSync } from "node:fs";
import { devNull } from "node:os";
import { EmbeddedDescriptorOpenError } from "./program-errors.ts";
import type { ServerAccount } from "./users.ts";

export type StdioEntry = "ignore" | "pipe" | number;

interface ClosedOptions extends Omit<SpawnOptions, "stdio"> {
  readonly stdio: readonly StdioEntry[];
}

/** The list that is made for Node has an entry for each number up to the highest. */
const HIGHEST_CLOSED = 1_023;
/** In the new process, Node opens some files more, with numbers above the highest of that list. */
const ROOM_ABOVE = 64;
/** In octal, as the lines `flags:` of Linux are. */
const CLOSE_ON_EXEC = 0o2000000;

/** `account`: the other user that it runs as. A file that cannot be kept from another user refuses the start. */
export function spawnClosed(
  program: string,
  args: readonly string[],
  { stdio, ...options }: ClosedOptions,
  account: ServerAccount | undefined,
): ChildProcess {
  const inherited = inheritedDescriptors().filter((descriptor) => descriptor >= stdio.length);
  const highest = Math.min(HIGHEST_CLOSED, openFilesLimit() - ROOM_ABOVE - inherited.length);
  const tooHigh = inherited.find((descriptor) => descriptor > highest);
  if (tooHigh !== undefined && account !== undefined) throw new EmbeddedDescriptorOpenError(tooHigh, account.uid);
  const replaced = inherited.filter((descriptor) => descriptor <= highest);
  if (replaced.length === 0) return spawn(program, args, { ...options, stdio: [...stdio] });
  // An "ignore" leaves the numbers from 3 on as they are. Only an open file takes the place of another.
  const nothing = openSync(devNull, "r+");
  try {
    const all: StdioEntry[] = [...stdio];
    while (all.length <= Math.max(...replaced)) all.push(replaced.includes(all.length) ? nothing : "ignore");
    return spawn(program, args, { ...options, stdio: all });
  } finally {
    closeSync(nothing);
  }
}

/** From 3 on. Only Linux tells: on macOS, or where there is no /proc, nothing is known, and such files stay open. */
function inheritedDescriptors(): number[] {
  try {
    return readdirSync("/proc/self/fd")
      .map(Number)
      .filter((descriptor) => descriptor > 2 && isInherited(descriptor));
  } catch {
    return [];
  }
}

function isInherited(descriptor: number): boolean {
  try {
    const [, flags = "0"] = /^flags:\s*([0-7]+)/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, "utf8")) ?? [];
    return (Number.parseInt(flags, 8) & CLOSE_ON_EXEC) === 0;
  } catch (error) {
    // Closed since it was listed, as the one that the list was read by. To put nothing in the place of any other does no harm.
    return (error as NodeJS.ErrnoException).code !== "ENOENT";
  }
}

function openFilesLimit(): number {
  try {
    const [, limit] = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8")) ?? [];
    return limit === undefined ? Number.POSITIVE_INFINITY : Number(limit);
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}
