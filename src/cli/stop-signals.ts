/** SIGTERM and SIGINT, one after the other, as promises; and what takes their place in a supervised worker. */
import type { SupervisorLink } from "../supervisor/supervised.ts";

export interface StopSignals {
  readonly first: Promise<void>;
  readonly second: Promise<void>;
  readonly third: Promise<void>;
  close(): void;
}

export function listenForStop(): StopSignals {
  const signals = ["SIGTERM", "SIGINT"] as const;
  const resolvers: (() => void)[] = [];
  const nth = () => new Promise<void>((resolve) => resolvers.push(resolve));
  const [first, second, third] = [nth(), nth(), nth()];
  let received = 0;
  const onSignal = () => resolvers[received++]?.();
  for (const signal of signals) process.on(signal, onSignal);
  return {
    first,
    second,
    third,
    close() {
      for (const signal of signals) process.off(signal, onSignal);
    },
  };
}

export function stopWhenTold({ leave, leaveNow }: SupervisorLink): StopSignals {
  return { first: leave, second: leaveNow, third: new Promise(() => {}), close() {} };
}
