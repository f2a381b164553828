/**
 * Leaving on SIGTERM, SIGINT and SIGHUP: gracefully at the first, at once at the second. SIGHUP counts once, because a terminal that closes may send
 * it twice. This is for a worker in a user's own program, which ends as it would have without us: by the signal. A command exits with a code
 * instead, and has its own listeners (`cli/stop-signals.ts`).
 */
import { listenToProcess } from "../process-listeners.ts";
import { atMost } from "./waiting.ts";

/** How long "at once" may take, should even that be held up by a database that does not answer. */
const AT_ONCE_MS = 3_000;

export interface SignalHandling {
  close(): void;
}

export function leaveOnSignals(leave: { gracefully: () => Promise<void>; now: () => Promise<void> }): SignalHandling {
  const signals = ["SIGTERM", "SIGINT", "SIGHUP"] as const;
  let received = 0;
  const onSignal = (signal: (typeof signals)[number]) => {
    if (signal === "SIGHUP" && received > 0) return;
    received++;
    const left = received === 1 ? leave.gracefully() : atMost(AT_ONCE_MS, leave.now());
    void left.finally(() => {
      close();
      // With nobody else listening, the process ends as it would have without us: by the signal itself.
      if (process.listenerCount(signal) === 0) process.kill(process.pid, signal);
    });
  };
  const stops = signals.map((signal) => listenToProcess(signal, onSignal));
  const close = () => {
    for (const stop of stops) stop();
  };
  return { close };
}
