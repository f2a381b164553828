/** SIGTERM, SIGINT and SIGHUP, one after the other, as promises; and what takes their place in a supervised worker. */
import type { SupervisorLink } from "../supervisor/supervised.ts";

export interface StopSignals {
  readonly first: Promise<void>;
  readonly second: Promise<void>;
  readonly third: Promise<void>;
  close(): void;
}

/** `onHangup`: in place of a stop. */
export function listenForStop(onHangup?: () => void): StopSignals {
  const signals = ["SIGTERM", "SIGINT"] as const;
  const resolvers: (() => void)[] = [];
  const nth = () => new Promise<void>((resolve) => resolvers.push(resolve));
  const [first, second, third] = [nth(), nth(), nth()];
  let received = 0;
  const onSignal = () => resolvers[received++]?.();
  for (const signal of signals) process.on(signal, onSignal);
  // A terminal that closes sends it, and its shell may do so again: however many come, they are one wish to stop.
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
