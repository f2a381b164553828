/**
 * A promise that a handler started and nobody awaits may reject: that must fail the handler's own task, and neither
 * end the process nor be blamed on another task. Each handler runs in a scope that such a rejection can be traced to.
 */
import { AsyncLocalStorage } from "node:async_hooks";

export interface StrayRejections {
  /** Runs the work; a stray rejection that comes from it goes to `onStray`. */
  scope<T>(onStray: (reason: unknown) => void, work: () => T): T;
  close(): void;
}

export function catchStrayRejections(): StrayRejections {
  const scopes = new AsyncLocalStorage<(reason: unknown) => void>();
  const onRejection = (reason: unknown) => {
    const onStray = scopes.getStore();
    if (onStray) return onStray(reason);
    // Not from a handler. Having a listener must not change what the application would have seen without ours.
    if (process.listenerCount("unhandledRejection") === 1) {
      setImmediate(() => {
        throw reason;
      });
    }
  };
  process.on("unhandledRejection", onRejection);
  return {
    scope: (onStray, work) => scopes.run(onStray, work),
    close: () => void process.off("unhandledRejection", onRejection),
  };
}
