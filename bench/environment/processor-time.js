/** Processor time, from /proc: of one process with all its threads, or of a server with all its children. */
import { readdirSync, readFileSync } from "node:fs";

/** What Linux counts in, on every platform that Node runs on. */
const TICKS_PER_SECOND = 100;

export function processorMsOf(pid) {
  const stat = statOf(pid);
  return stat ? toMs(stat.own) : 0;
}

/** The server's processes that are there, and those that were: the parent inherits the time of its dead children. */
export function processorMsOfTree(pid) {
  const parent = statOf(pid);
  if (!parent) return 0;
  const children = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((name) => statOf(name))
    .filter((stat) => stat?.parent === pid);
  return toMs(parent.own + parent.inherited + children.reduce((sum, child) => sum + child.own + child.inherited, 0));
}

export function residentBytesOf(pid) {
  const kilobytes = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return Number(kilobytes) * 1024;
}

/** After the name in parentheses, which may hold anything, the fields are numbers from the third on. */
function statOf(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    const field = (number) => Number(fields[number - 3]);
    return { parent: field(4), own: field(14) + field(15), inherited: field(16) + field(17) };
  } catch {
    return undefined;
  }
}

function toMs(ticks) {
  return (ticks * 1000) / TICKS_PER_SECOND;
}
