/**
 * A promise that a handler started and nobody awaits may reject, and a timer or an emitter that it set up may throw: that
 * must fail the handler's own task, and neither end the process nor be blamed on another task. Each handler runs in a
 * scope that such an error can be traced to.
 */
import { AsyncLocalStorage, AsyncResource } from "node:async_hooks";

export interface StrayOwner {
  onStray(reason: unknown): void;
}

export interface StrayRejections {
  /** Runs the work; a stray error that comes from it goes to its owner. */
  scope<T>(owner: StrayOwner, work: () => T): T;
  /** The same, in the context in which this was set up, whatever the caller's is. */
  outermostScope<T>(owner: StrayOwner, work: () => T): T;
  close(): void;
}

export function catchStrayRejections(): StrayRejections {
  const scopes = new AsyncLocalStorage<StrayOwner>();
  const outside = new AsyncResource("everbeat.handlers");
  const enter = <T>(owner: StrayOwner, work: () => T): T => {
    scopes.enterWith(owner);
    return work();
  };
  const onRejection = (reason: unknown) => {
    const owner = scopes.getStore();
    if (owner) return owner.onStray(reason);
    // Not from a handler. Having a listener must not change what the application would have seen without ours.
    if (process.listenerCount("unhandledRejection") === 1) leaveUncaught(reason);
  };
  const onException = (error: unknown, origin: NodeJS.UncaughtExceptionOrigin) => {
    const owner = origin === "uncaughtException" ? scopes.getStore() : undefined;
    if (owner) return owner.onStray(error);
    if (process.listenerCount("uncaughtException") === 1) leaveUncaught(error);
  };
  const close = () => {
    process.off("unhandledRejection", onRejection);
    process.off("uncaughtException", onException);
  };
  /** Ends the process as it would have ended without us. */
  const leaveUncaught = (error: unknown) => {
    close();
    scopes.exit(() =>
      setImmediate(() => {
        throw error;
      }),
    );
  };
  process.on("unhandledRejection", onRejection);
  process.on("uncaughtException", onException);
  return {
    scope: (owner, work) => scopes.run(owner, work),
    // `run` copies the context to enter it and once more to leave it: a third of all that a task without effort allocates.
    outermostScope: (owner, work) => outside.runInAsyncScope(enter<ReturnType<typeof work>>, undefined, owner, work),
    close,
  };
}
