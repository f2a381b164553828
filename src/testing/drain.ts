/** Runs everything that is due, in this process, by a real worker on the real database, until nothing is left to do. */
import { anything, type Check, checkOptions, isDuration, isFunction, isInteger } from "../config/checks.ts";
import type { Duration } from "../config/duration.ts";
import { Problems } from "../config/problems.ts";
import { delay } from "../database/backoff.ts";
import { EverbeatError } from "../errors.ts";
import type { Everbeat } from "../everbeat.ts";
import { readClock } from "../sql/clock.ts";
import { type DueTask, type EndedAttempt, findDueTasks, listEndedAttempts } from "../sql/testing.ts";
import type { Middleware } from "../task/context.ts";
import type { AnyTask } from "../task/define-task.ts";
import type { ReplicaId } from "../task/ids.ts";

export interface DrainOptions {
  /** Go on until this is true, instead of until nothing is due. */
  until?: () => boolean | Promise<boolean>;
  /** Throws a DrainTimeoutError if it takes longer (default 10 s). */
  timeout?: Duration;
  /** How many tasks run at once (default 10). 1 runs them strictly in their order. */
  concurrency?: number;
  middleware?: readonly Middleware[];
}

export class DrainTimeoutError extends EverbeatError {
  readonly code = "DRAIN_TIMEOUT";
  readonly kind = "not-now";
  constructor(
    readonly timeoutMs: number,
    readonly left: readonly DueTask[],
  ) {
    const shown = left
      .slice(0, 20)
      .map((task) => `\n  - ${task.name} ${task.id}, ${task.state} in queue ${task.queue}`);
    const more = left.length > shown.length ? `\n  … and ${left.length - shown.length} more` : "";
    super(
      left.length === 0
        ? `Nothing was due any more, but "until" had not come true within ${timeoutMs} ms.`
        : `Not drained within ${timeoutMs} ms. Still to do:${shown.join("")}${more}`,
    );
  }
}

/**
 * Returns every attempt that ended, in the order of their claims. A task that waits for its time (a delay, the next retry, a rate limit) is
 * not due and stays: see `advanceTime`.
 */
export async function drain(
  everbeat: Everbeat,
  tasks: readonly AnyTask[],
  options?: DrainOptions,
): Promise<readonly EndedAttempt[]> {
  const given = checkDrain(options);
  const since = await readClock(everbeat.database);
  const worker = await everbeat.work(tasks, {
    concurrency: given.concurrency ?? 10,
    prefetch: 0,
    pollInterval: LOOK_EVERY_MS,
    abortGrace: 1_000,
    handleSignals: false,
    ...(given.middleware ? { middleware: given.middleware } : {}),
  });
  const drained = { replicaId: worker.replicaId, names: tasks.map((task) => task.name), since };
  try {
    await untilDone(everbeat, drained, { until: given.until, timeoutMs: given.timeout ?? 10_000 });
  } catch (error) {
    await worker.stop({ now: true });
    throw error;
  }
  await worker.stop();
  return listEndedAttempts(everbeat.database, drained);
}

const LOOK_EVERY_MS = 20;

const SHAPE = {
  until: isFunction as Check<() => boolean | Promise<boolean>>,
  timeout: isDuration({ minMs: 1, maxMs: 86_400_000 }),
  concurrency: isInteger({ min: 1, max: 10_000 }),
  middleware: anything as Check<readonly Middleware[]>,
};

export function checkDrain(options: unknown) {
  const problems = new Problems();
  const given = checkOptions(options, SHAPE, { path: "", problems });
  problems.throwIfAny("drain");
  return given;
}

async function untilDone(
  everbeat: Everbeat,
  { replicaId, names }: { replicaId: ReplicaId; names: readonly string[] },
  limits: { until: DrainOptions["until"]; timeoutMs: number },
): Promise<void> {
  const givingUpAt = performance.now() + limits.timeoutMs;
  for (;;) {
    const due = await findDueTasks(everbeat.database, replicaId, names);
    if (limits.until ? await limits.until() : due.length === 0) return;
    if (performance.now() > givingUpAt) throw new DrainTimeoutError(limits.timeoutMs, due);
    await delay(LOOK_EVERY_MS);
  }
}
