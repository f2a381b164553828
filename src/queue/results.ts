/**
 * Waiting for tasks to end: told by the database where it can tell, looking by itself where it cannot. However many wait,
 * they share their statements and one connection at a time, so that waiting never starves the work that is waited for.
 */
import { delay } from "../database/backoff.ts";
import type { Database } from "../database/database.ts";
import type { Notices } from "../database/notices.ts";
import { isTransient } from "../database/transient.ts";
import { addWaiters, readEndings, removeWaiters, type TaskEnding } from "../sql/waiters.ts";
import { ResultTimeoutError, TaskEndedError, TaskNotFoundError } from "../task/errors.ts";
import type { TaskId } from "../task/ids.ts";
import { isEnded } from "../task/states.ts";
import { Batcher } from "./batcher.ts";

/** A task that ends in the very moment in which one begins to wait may not tell: the first looks follow quickly. */
const FIRST_LOOK_MS = 10;
const LOOK_EVERY_MS = 1_000;
const LOOK_EVERY_WITHOUT_NOTICES_MS = 100;
const BATCH = 1_000;

export class Results {
  readonly #notices: Notices;
  readonly #looks: Batcher<TaskId, TaskEnding | undefined>;
  readonly #arrivals: Batcher<TaskId, TaskId>;
  readonly #departures: Batcher<TaskId, TaskId>;
  readonly #bells = new Map<TaskId, Set<() => void>>();
  #isSubscribed = false;

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
  async wait(id: TaskId, options: { timeoutMs: number; signal?: AbortSignal | undefined }): Promise<unknown> {
    const first = await this.#looks.add(id);
    if (!first) throw new TaskNotFoundError(id);
    if (isEnded(first.state)) return resultOf(first);
    await this.#subscribe();
    const bell = wakeUp();
    const unhang = this.#hang(id, bell.ring);
    await this.#arrivals.add(id);
    try {
      return await this.#untilEnded(id, bell, options);
    } finally {
      unhang();
      // Left behind, it costs one notification more; upkeep removes it in the end.
      void this.#departures.add(id).catch(() => {});
    }
  }

  async idle(): Promise<void> {
    await this.#departures.idle();
  }

  async #untilEnded(
    id: TaskId,
    bell: ReturnType<typeof wakeUp>,
    options: { timeoutMs: number; signal?: AbortSignal | undefined },
  ): Promise<unknown> {
    const until = performance.now() + options.timeoutMs;
    for (let pauseMs = FIRST_LOOK_MS; ; pauseMs *= 3) {
      const ending = await this.#looks.add(id);
      if (!ending) throw new TaskNotFoundError(id);
      if (isEnded(ending.state)) return resultOf(ending);
      options.signal?.throwIfAborted();
      const left = until - performance.now();
      if (left <= 0) throw new ResultTimeoutError(id, options.timeoutMs, ending.state);
      const longest = this.#notices.isListening ? LOOK_EVERY_MS : LOOK_EVERY_WITHOUT_NOTICES_MS;
      await bell.wait(Math.min(left, pauseMs, longest), options.signal);
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

/** A look that fails because the database is away for a moment says nothing about the tasks. */
async function look(database: Database, ids: readonly TaskId[]): Promise<(TaskEnding | undefined)[]> {
  for (let attempt = 1; ; attempt++) {
    try {
      const endings = new Map((await readEndings(database, ids)).map((ending) => [ending.id, ending]));
      return ids.map((id) => endings.get(id));
    } catch (error) {
      if (!isTransient(error) || attempt >= 20) throw error;
      await delay(50 * attempt);
    }
  }
}

function resultOf(ending: TaskEnding): unknown {
  if (ending.state === "completed") return ending.result;
  const error = ending.error ?? { code: "RESULT_NOT_AVAILABLE", message: "nothing was recorded about why" };
  throw new TaskEndedError(ending.id, ending.state as "failed" | "cancelled" | "expired", error);
}

/** A ring that comes while nobody waits is remembered for the next wait. */
function wakeUp(): { ring: () => void; wait: (ms: number, signal: AbortSignal | undefined) => Promise<void> } {
  let current = new AbortController();
  return {
    ring: () => current.abort(),
    async wait(ms, signal) {
      await delay(ms, signal ? AbortSignal.any([current.signal, signal]) : current.signal);
      current = new AbortController();
    },
  };
}
