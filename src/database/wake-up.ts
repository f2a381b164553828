/** A pause that somebody may end early. A ring that comes while nobody waits is remembered for the next wait. */
import { delay } from "./backoff.ts";

export interface WakeUp {
  ring(): void;
  wait(ms: number, signal: AbortSignal | undefined): Promise<void>;
}

export function wakeUp(): WakeUp {
  let current = new AbortController();
  return {
    ring: () => current.abort(),
    async wait(ms, signal) {
      await delay(ms, current.signal, signal);
      current = new AbortController();
    },
  };
}
