/** Ctrl-C in an order to many tasks: it ends after the batch that is under way, and says how far it has come. */
import type { OperationContext, Reached } from "../operations/operation.ts";
import type { Call } from "./command.ts";
import { OrderInterruptedError } from "./errors.ts";
import { formatted } from "./formatted.ts";

/** `order` is to pass on the context that it is given. */
export async function interruptible<T>(
  { screen }: Pick<Call, "screen">,
  order: (context: OperationContext) => Promise<T>,
): Promise<T> {
  const stopping = new AbortController();
  const { signal } = stopping;
  let reached: Reached = { done: 0, of: 0 };
  let stopNow: (error: Error) => void = () => {};
  const interrupted = new Promise<never>((_, reject) => {
    stopNow = reject;
  });
  const onInterrupt = () => {
    screen.progress.clear();
    const isUnderWay = reached.done < reached.of;
    if (!isUnderWay || signal.aborted) return stopNow(new OrderInterruptedError(reached, isUnderWay));
    stopping.abort();
    screen.remark("Stopping after this batch. Ctrl-C again: at once.");
  };
  const progress = (now: Reached) => {
    reached = now;
    const { done, of } = now;
    if (done >= of) screen.progress.clear();
    else if (!signal.aborted) screen.progress.show(`${formatted(done)} of ${formatted(of)} tasks`);
  };
  process.on("SIGINT", onInterrupt);
  try {
    return await Promise.race([order({ signal, progress }), interrupted]);
  } catch (error) {
    throw signal.aborted && error === signal.reason ? new OrderInterruptedError(reached, false) : error;
  } finally {
    process.off("SIGINT", onInterrupt);
  }
}
