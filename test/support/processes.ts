/** Looks at processes that a test knows by their ids. */
import { readFileSync } from "node:fs";

/** Neither gone nor a zombie whose parent has not looked yet. */
export function isAlive(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2, stat.lastIndexOf(")") + 3) !== "Z";
  } catch {
    return false;
  }
}
