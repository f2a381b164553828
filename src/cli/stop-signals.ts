/**
 * The signals that ask a command to stop, one after the other, as promises; and what takes their place in a supervised worker.
 *
 * SIGHUP means something else in each kind of process, so each treats it by itself. Here a terminal that closes sends it, and its shell may do so
 * again: however many come, they are one wish to stop, unless the command does something else then. A supervised child leaves SIGHUP to its
 * supervisor (`supervisor/supervised.ts`). A worker in a user's own program ends by the signal itself (`worker/signals.ts`).
 */
import type { SupervisorLink } from "../supervisor/supervised.ts";

export interface StopSignals {
  readonly first: Promise<void>;
  readonly second: Promise<void>;
  readonly third: Promise<void>;
  close(): void;
}

/** `onHangup` is what SIGHUP does where it does not ask to stop: a supervisor replaces its children then, as other servers read their settings anew. */
export function listenForStop(onHangup?: () => void): StopSignals {
  const signals = ["SIGTERM", "SIGINT"] as const;
  const resolvers: (() => void)[] = [];
  const nth = () => new Promise<void>((resolve) => resolvers.push(resolve));
  const [first, second, third] = [nth(), nth(), nth()];
  let received = 0;
  const onSignal = () => resolvers[received++]?.();
  for (const signal of signals) process.on(signal, onSignal);
  const hangup = onHangup ?? (() => received === 0 && onSignal());
  process.on("SIGHUP", hangup);
  return {
    first,
    second,
    third,
    close() {
      for (const signal of signals) process.off(signal, onSignal);
      process.off("SIGHUP", hangup);
    },
  };
}

export function stopWhenTold({ leave, leaveNow }: SupervisorLink): StopSignals {
  return { first: leave, second: leaveNow, third: new Promise(() => {}), close() {} };
}
