/** SIGTERM and SIGINT, one after the other, as promises. */
export interface StopSignals {
  readonly first: Promise<void>;
  readonly second: Promise<void>;
  readonly third: Promise<void>;
  readonly wasAsked: boolean;
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
    get wasAsked() {
      return received > 0;
    },
    close() {
      for (const signal of signals) process.off(signal, onSignal);
    },
  };
}
