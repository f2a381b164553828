/** Looks at processes that a test knows by their ids. */
import { readdirSync, readFileSync } from "node:fs";

/** Neither gone nor a zombie whose parent has not looked yet. */
export function isAlive(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2, stat.lastIndexOf(")") + 3) !== "Z";
  } catch {
    return false;
  }
}

/** The guardian of the runner in that process. */
export function guardianOf(runner: number): number {
  const [found] = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => readProc(pid, "stat").includes(`) S ${runner} `) && readProc(pid, "cmdline").includes("guardian"));
  if (found === undefined) throw new Error(`runner ${runner} has no guardian`);
  return Number(found);
}

function readProc(pid: string, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8");
  } catch {
    return "";
  }
}
