/** Ctrl-C in an order to many tasks: it ends after the batch that is under way, and says how far it has come. */
import type { OrderProgress } from "../queue/task-orders.ts";
import type { Call } from "./command.ts";
import { OrderInterruptedError } from "./errors.ts";
import { formatted } from "./formatted.ts";

/** `order` is to pass on the progress that it is given. */
export async function interruptible<T>(
  { screen }: Pick<Call, "screen">,
  order: (onProgress: OrderProgress) => Promise<T>,
): Promise<T> {
  let reached = { done: 0, of: 0 };
  let isStopping = false;
  let stopNow: (error: Error) => void = () => {};
  const interrupted = new Promise<never>((_, reject) => {
    stopNow = reject;
  });
  const onInterrupt = () => {
    screen.progress.clear();
    const isUnderWay = reached.done < reached.of;
    if (!isUnderWay || isStopping) return stopNow(new OrderInterruptedError(reached, isUnderWay));
    isStopping = true;
    screen.remark("Stopping after this batch. Ctrl-C again: at once.");
  };
  const onProgress: OrderProgress = (progress) => {
    reached = progress;
    const { done, of } = progress;
    if (done >= of) screen.progress.clear();
    else if (isStopping) throw new OrderInterruptedError(progress, false);
    else screen.progress.show(`${formatted(done)} of ${formatted(of)} tasks`);
  };
  process.on("SIGINT", onInterrupt);
  try {
    return await Promise.race([order(onProgress), interrupted]);
  } finally {
    process.off("SIGINT", onInterrupt);
  }
}
