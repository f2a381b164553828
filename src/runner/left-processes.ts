/** Whether processes that handlers have started are still there, in the group of this runner's process. This is the runner's side. */
import { readdirSync, readFileSync } from "node:fs";

/** `guardian`: the one that is always there. */
export function areProcessesLeft(guardian: number | undefined): boolean {
  const all = processesOfSystem();
  // Without a list of all processes, those that this one has started itself and still waits for.
  if (!all) return process.getActiveResourcesInfo().includes("ProcessWrap");
  return all.some((pid) => pid !== process.pid && pid !== guardian && isInOwnGroup(pid));
}

/** Undefined where the system has no such list. */
function processesOfSystem(): readonly number[] | undefined {
  try {
    return readdirSync("/proc").map(Number).filter(Number.isInteger);
  } catch {
    return undefined;
  }
}

/** A process that has ended, and that nobody has waited for yet, is not there any more. */
function isInOwnGroup(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    // After the name, which may have brackets and spaces in it.
    const [state = "", , group] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return Number(group) === process.pid && !"ZX".includes(state);
  } catch {
    return false;
  }
}
