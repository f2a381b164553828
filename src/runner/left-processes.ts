/**
 * Whether processes that an attempt has started are still there, in the group of this runner's process. Those that were there before it are not
 * its own: an earlier task may have left them on purpose, or a module may have started them when it was loaded. This is the runner's side.
 */
import { readdirSync, readFileSync } from "node:fs";

export class LeftProcesses {
  /** The one that is always there. */
  readonly #guardian: number | undefined;
  #before: ReadonlySet<string> = new Set();
  #startedBefore = 0;
  /** Seen before, in another group: a process seldom changes its group. */
  #foreign: ReadonlySet<number> = new Set();

  constructor(guardian: number | undefined) {
    this.#guardian = guardian;
  }

  /** An attempt, or a batch of them, begins. */
  begin(): void {
    const all = processesOfSystem();
    if (!all) {
      this.#startedBefore = startedHere();
      return;
    }
    const [foreign, before] = [new Set<number>(), new Set<string>()];
    for (const pid of all) {
      const member = this.#foreign.has(pid) ? undefined : this.#memberOf(pid);
      if (member === undefined) foreign.add(pid);
      else before.add(member);
    }
    this.#foreign = foreign;
    this.#before = before;
  }

  /** Whether there are any that were not there when it began. */
  areThere(): boolean {
    const all = processesOfSystem();
    // Without a list of all processes, those that this one has started itself and still waits for.
    if (!all) return startedHere() > this.#startedBefore;
    return all.some((pid) => {
      const member = this.#memberOf(pid);
      return member !== undefined && !this.#before.has(member);
    });
  }

  /**
   * What tells a member of the group from all others, also from one that has its number later. Undefined for what is none. A process that
   * has ended, and that nobody has waited for yet, is not there any more.
   */
  #memberOf(pid: number): string | undefined {
    if (pid === process.pid || pid === this.#guardian) return undefined;
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
      // After the name, which may have brackets and spaces in it.
      const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      const [state = "", , group] = fields;
      return Number(group) === process.pid && !"ZX".includes(state) ? `${pid} ${fields[STARTED_AT]}` : undefined;
    } catch {
      return undefined;
    }
  }
}

/** The 22nd field of all; the state is the third. */
const STARTED_AT = 19;

/** Undefined where the system has no such list. */
function processesOfSystem(): readonly number[] | undefined {
  try {
    return readdirSync("/proc").map(Number).filter(Number.isInteger);
  } catch {
    return undefined;
  }
}

function startedHere(): number {
  return process.getActiveResourcesInfo().filter((what) => what === "ProcessWrap").length;
}
