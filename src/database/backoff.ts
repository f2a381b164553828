/** Waiting for the database to come back: growing, jittered pauses that an abort ends at once. */
import { Timer } from "../timer.ts";

export interface Backoff {
  /** Waits for the next pause, longer each time, or until one of the signals fires. */
  pause(...signals: readonly (AbortSignal | undefined)[]): Promise<void>;
  reset(): void;
}

export function createBackoff(options: { firstMs: number; maxMs: number }): Backoff {
  let next = options.firstMs;
  return {
    async pause(...signals) {
      // Full jitter on the upper half: many workers that lost the same server must not come back in step.
      await delay(next / 2 + Math.random() * (next / 2), ...signals);
      next = Math.min(next * 2, options.maxMs);
    },
    reset() {
      next = options.firstMs;
    },
  };
}

/** Resolves after the time, or as soon as one of the signals fires. Takes several, since a signal made of others is a large thing. */
export function delay(ms: number, ...signals: readonly (AbortSignal | undefined)[]): Promise<void> {
  return wait(signals, (done) => new Timer(ms, done));
}

/** The same, where a process that has nothing else to do does not wait, but ends. */
export function idleDelay(ms: number, ...signals: readonly (AbortSignal | undefined)[]): Promise<void> {
  return wait(signals, (done) => new Timer(ms, done).unref());
}

function wait(signals: readonly (AbortSignal | undefined)[], start: (done: () => void) => Timer): Promise<void> {
  return new Promise((resolve) => {
    if (signals.some((signal) => signal?.aborted)) return resolve();
    const done = () => {
      timer.stop();
      for (const signal of signals) signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = start(done);
    for (const signal of signals) signal?.addEventListener("abort", done, { once: true });
  });
}
