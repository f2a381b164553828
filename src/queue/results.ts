/** Waiting for a task to end: told by the database where it can tell, looking by itself where it cannot. */
import { delay } from "../database/backoff.ts";
import type { Database } from "../database/database.ts";
import type { Notices } from "../database/notices.ts";
import { isTransient } from "../database/transient.ts";
import { addWaiter, readEnding, removeWaiter, type TaskEnding } from "../sql/waiters.ts";
import { ResultTimeoutError, TaskEndedError, TaskNotFoundError } from "../task/errors.ts";
import type { TaskId } from "../task/ids.ts";
import { isEnded } from "../task/states.ts";

const LOOK_EVERY_MS = 1_000;
const LOOK_EVERY_WITHOUT_NOTICES_MS = 100;

/** The result of a completed task. Throws what became of it otherwise. */
export async function waitForResult(
  parts: { database: Database; notices: Notices },
  id: TaskId,
  options: { timeoutMs: number; signal?: AbortSignal | undefined },
): Promise<unknown> {
  const first = await look(parts.database, id);
  if (!first) throw new TaskNotFoundError(id);
  if (isEnded(first.state)) return resultOf(first);

  await parts.notices.start();
  const bell = wakeUp();
  const unsubscribe = [
    parts.notices.on("ended", (endedId) => endedId === id && bell.ring()),
    parts.notices.onReconnect(bell.ring),
  ];
  const waiterId = await addWaiter(parts.database, id);
  try {
    return await untilEnded(parts, id, { ...options, bell });
  } finally {
    for (const stop of unsubscribe) stop();
    // Left behind, it costs one notification more; upkeep removes it in the end.
    await removeWaiter(parts.database, waiterId).catch(() => {});
  }
}

async function untilEnded(
  parts: { database: Database; notices: Notices },
  id: TaskId,
  options: { timeoutMs: number; signal?: AbortSignal | undefined; bell: ReturnType<typeof wakeUp> },
): Promise<unknown> {
  const until = performance.now() + options.timeoutMs;
  for (;;) {
    const ending = await look(parts.database, id);
    if (!ending) throw new TaskNotFoundError(id);
    if (isEnded(ending.state)) return resultOf(ending);
    options.signal?.throwIfAborted();
    const left = until - performance.now();
    if (left <= 0) throw new ResultTimeoutError(id, options.timeoutMs, ending.state);
    const pause = parts.notices.isListening ? LOOK_EVERY_MS : LOOK_EVERY_WITHOUT_NOTICES_MS;
    await options.bell.wait(Math.min(left, pause), options.signal);
  }
}

/** A look that fails because the database is away for a moment says nothing about the task. */
async function look(database: Database, id: TaskId): Promise<TaskEnding | undefined> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await readEnding(database, id);
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
