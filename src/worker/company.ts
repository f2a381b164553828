/**
 * Who else was at work in a worker when the kernel killed one of its runners for want of memory. The processes of a cgroup share a limit, and the kernel
 * takes the largest of them, which need not be the one that grew. So everybody who ran in the worker is a suspect, unless the runner filled the
 * limit by itself.
 */
import { wantOfMemory } from "../recovery/memory-outlook.ts";
import type { RunnerDeath } from "../runner/runner-death.ts";
import type { TaskId } from "../task/ids.ts";
import { runnerMemory } from "./runner-memory.ts";

export interface Company {
  /** Those that were in other runners or inline, and may run again. */
  readonly inWorker: readonly TaskId[];
  /** Another had just ended well or failed. */
  readonly hasJustEnded: boolean;
  /** Processes that are none of ours may have filled the limit. */
  readonly hasStrangers: boolean;
}

export const NOBODY: Company = { inWorker: [], hasJustEnded: false, hasStrangers: false };

/** The end of a runner is known later than it was killed, by at most this. */
const JUST_ENDED_MS = 1_000;

interface Ended {
  readonly taskId: TaskId;
  readonly atMs: number;
}

export class CompanyWatch {
  /** The tasks that are at work now. */
  readonly #atWork: () => readonly TaskId[];
  #lastEnded: Ended | undefined;
  /** The kernel may kill several at once. */
  #crashed: readonly Ended[] = [];
  /** Asked of each death more than once: for its post-mortem, and for each of its attempts. */
  readonly #answers = new WeakMap<RunnerDeath, Company>();

  constructor(atWork: () => readonly TaskId[]) {
    this.#atWork = atWork;
  }

  noteEnd(taskId: TaskId, isCrash: boolean, atMs: number): void {
    const ended = { taskId, atMs };
    if (isCrash) this.#crashed = [...this.#crashed.filter((each) => isJust(each, atMs)), ended];
    else this.#lastEnded = ended;
  }

  /** Those who may have caused this end from elsewhere in the worker. The first answer is kept: they change while the end is dealt with. */
  companyOf(death: RunnerDeath, nowMs: number): Company {
    const company = this.#answers.get(death) ?? this.#lookFor(death, nowMs);
    this.#answers.set(death, company);
    return company;
  }

  #lookFor(death: RunnerDeath, nowMs: number): Company {
    if (!isForSharedMemory(death)) return NOBODY;
    const own = new Set(death.attempts.map(({ taskId }) => taskId));
    const crashed = this.#crashed.filter((each) => isJust(each, nowMs)).map(({ taskId }) => taskId);
    const inWorker = new Set([...this.#atWork(), ...crashed]);
    const last = this.#lastEnded;
    return {
      inWorker: [...inWorker].filter((id) => !own.has(id)),
      hasJustEnded: last !== undefined && isJust(last, nowMs) && !own.has(last.taskId),
      // Unless it was seen to be what grew.
      hasStrangers: !death.group?.grewMost,
    };
  }
}

export function countOf({ inWorker, hasJustEnded }: Company): number {
  return inWorker.length + (hasJustEnded ? 1 : 0);
}

function isJust({ atMs }: Ended, nowMs: number): boolean {
  return nowMs - atMs < JUST_ENDED_MS;
}

function isForSharedMemory(death: RunnerDeath): boolean {
  if (death.because !== "exited" || death.signal !== "SIGKILL") return false;
  return wantOfMemory(runnerMemory(death), death.group)?.isShared === true;
}
