/**
 * Waiting for tasks to end: told by the database where it can tell, looking by itself where it cannot, as where this process may only read. However many wait,
 * they share their statements and one connection at a time, so that waiting never starves the work that is waited for.
 */
import { checkOptions, isAbortSignal, isDuration } from "../config/checks.ts";
import { Problems } from "../config/problems.ts";
import type { Database } from "../database/database.ts";
import type { Notices } from "../database/notices.ts";
import { isRightMissing, isTransient } from "../database/transient.ts";
import { type WakeUp, wakeUp } from "../database/wake-up.ts";
import { addWaiters, readEndings, removeWaiters, type TaskEnding } from "../sql/waiters.ts";
import { ResultTimeoutError, TaskEndedError, TaskNotFoundError } from "../task/errors.ts";
import { isUuid, type TaskId } from "../task/ids.ts";
import { isEnded } from "../task/states.ts";
import { Batcher } from "./batcher.ts";
import { patiently } from "./patiently.ts";

/** A task that ends in the very moment in which one begins to wait may not tell: the first looks follow quickly. */
const FIRST_LOOK_MS = 10;
const LOOK_EVERY_MS = 1_000;
const LOOK_EVERY_WITHOUT_NOTICES_MS = 100;
const BATCH = 1_000;

export interface Wait {
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
}

export const isResultTimeout = isDuration({ minMs: 0, maxMs: 30 * 86_400_000 });

const WAIT_SHAPE = { timeout: isResultTimeout, signal: isAbortSignal };

/** What a call of `result` was given. */
export function checkWait(id: unknown, options: unknown): Wait {
  const problems = new Problems();
  const { timeout = 60_000, signal } = checkOptions(options, WAIT_SHAPE, { path: "", problems });
  if (!isUuid(id)) problems.add("id", "must be a task's id");
  problems.throwIfAny("The wait for a result");
  return { timeoutMs: timeout, signal };
}

export class Results {
  readonly #notices: Notices;
  readonly #looks: Batcher<TaskId, TaskEnding | undefined>;
  readonly #arrivals: Batcher<TaskId, TaskId>;
  readonly #departures: Batcher<TaskId, TaskId>;
  readonly #bells = new Map<TaskId, Set<() => void>>();
  #isSubscribed = false;
  /** It may only read: nobody tells it of an end, so it looks more often. */
  #isReader = false;

  constructor(database: Database, notices: Notices) {
    this.#notices = notices;
    const shared = { maxItems: BATCH, maxUnderWay: 1 };
    this.#looks = new Batcher({ ...shared, run: (ids) => look(database, ids) });
    this.#arrivals = new Batcher({ ...shared, run: (ids) => addWaiters(database, ids).then(() => ids) });
    this.#departures = new Batcher({
      ...shared,
      run: (ids) => removeWaiters(database, ids).then(() => ids),
    });
  }

  /** The result of a completed task. Throws what became of it otherwise. */
  async wait(id: TaskId, options: Wait): Promise<unknown> {
    const first = await patiently(() => this.#looks.add(id));
    if (!first) throw new TaskNotFoundError(id);
    if (isEnded(first.state)) return resultOf(first);
    await this.#subscribe();
    const bell = wakeUp();
    const unhang = this.#hang(id, bell.ring);
    try {
      return await this.#untilEnded(first, bell, options);
    } finally {
      unhang();
    }
  }

  async idle(): Promise<void> {
    await this.#departures.idle();
  }

  /** Goes on while the database is away: that says nothing about the task. */
  async #untilEnded(first: TaskEnding, bell: WakeUp, options: Wait): Promise<unknown> {
    const { id } = first;
    const until = performance.now() + options.timeoutMs;
    let lastSeen = first;
    let isOnRecord = false;
    try {
      for (let pauseMs = FIRST_LOOK_MS; ; pauseMs *= 3) {
        isOnRecord ||= await this.#arrive(id);
        const ending = await this.#looks.add(id).catch(unlessAway("away" as const));
        if (!ending) throw new TaskNotFoundError(id);
        if (ending !== "away") lastSeen = ending;
        if (isEnded(lastSeen.state)) return resultOf(lastSeen);
        options.signal?.throwIfAborted();
        const left = until - performance.now();
        if (left <= 0) throw new ResultTimeoutError(id, options.timeoutMs, lastSeen.state);
        // The bell rings when the connection is back, too.
        const isTold = (this.#notices.isListening && !this.#isReader) || ending === "away";
        const longest = isTold ? LOOK_EVERY_MS : LOOK_EVERY_WITHOUT_NOTICES_MS;
        await bell.wait(Math.min(left, pauseMs, longest), options.signal);
      }
    } finally {
      // Left behind, it costs one notification more; upkeep removes it in the end.
      if (isOnRecord) void this.#departures.add(id).catch(() => {});
    }
  }

  /** Whether it is on record that somebody waits for this task. */
  async #arrive(id: TaskId): Promise<boolean> {
    if (this.#isReader) return false;
    try {
      await this.#arrivals.add(id);
      return true;
    } catch (error) {
      this.#isReader = isRightMissing(error);
      if (!this.#isReader && !isTransient(error)) throw error;
      return false;
    }
  }

  async #subscribe(): Promise<void> {
    await this.#notices.start();
    if (this.#isSubscribed) return;
    this.#isSubscribed = true;
    this.#notices.on("ended", (id) => {
      for (const ring of this.#bells.get(id as TaskId) ?? []) ring();
    });
    this.#notices.onReconnect(() => {
      for (const bells of this.#bells.values()) for (const ring of bells) ring();
    });
  }

  #hang(id: TaskId, ring: () => void): () => void {
    const bells = this.#bells.get(id) ?? new Set();
    this.#bells.set(id, bells);
    bells.add(ring);
    return () => {
      bells.delete(ring);
      if (bells.size === 0) this.#bells.delete(id);
    };
  }
}

async function look(database: Database, ids: readonly TaskId[]): Promise<(TaskEnding | undefined)[]> {
  const endings = new Map((await readEndings(database, ids)).map((ending) => [ending.id, ending]));
  return ids.map((id) => endings.get(id));
}

function unlessAway<T>(instead: T): (error: unknown) => T {
  return (error) => {
    if (!isTransient(error)) throw error;
    return instead;
  };
}

function resultOf(ending: TaskEnding): unknown {
  if (ending.state === "completed") return ending.result;
  const error = ending.error ?? { code: "RESULT_NOT_AVAILABLE", message: "nothing was recorded about why" };
  throw new TaskEndedError(ending.id, ending.state as "failed" | "cancelled" | "expired", error);
}
