/**
 * The signals that ask a command to stop, one after the other, as promises; and what takes their place in a supervised worker.
 *
 * SIGHUP means something else in each kind of process, so each treats it by itself. To a command a terminal that closes sends it, and its shell may
 * do so again: however many come, they are one wish to stop, and only as the first. To a supervisor it is a wish for a roll, unless its
 * terminal closes. A supervised child leaves SIGHUP to its supervisor (`supervisor/supervised.ts`). A worker in a user's own program ends by the
 * signal itself (`worker/signals.ts`).
 */
import type { SupervisorLink } from "../supervisor/supervised.ts";

export interface StopSignals {
  readonly first: Promise<void>;
  readonly second: Promise<void>;
  readonly third: Promise<void>;
  /** The first has come. Known before anybody else hears of the signal, and so before the promise is. */
  readonly isAsked: boolean;
  close(): void;
}

/** `onHangup`: true where SIGHUP is something else than a wish to stop, which was seen to. A supervisor replaces its children then. */
export function listenForStop(onHangup: () => boolean = () => false): StopSignals {
  const signals = ["SIGTERM", "SIGINT"] as const;
  const resolvers: (() => void)[] = [];
  const nth = () => new Promise<void>((resolve) => resolvers.push(resolve));
  const [first, second, third] = [nth(), nth(), nth()];
  let received = 0;
  const onSignal = () => resolvers[received++]?.();
  const hangup = () => {
    if (!onHangup() && received === 0) onSignal();
  };
  // A listener of a user's own may end the process at once.
  for (const signal of signals) process.prependListener(signal, onSignal);
  process.prependListener("SIGHUP", hangup);
  return {
    ...{ first, second, third },
    get isAsked() {
      return received > 0;
    },
    close() {
      for (const signal of signals) process.off(signal, onSignal);
      process.off("SIGHUP", hangup);
    },
  };
}

export function stopWhenTold({ leave, leaveNow }: SupervisorLink): StopSignals {
  let isAsked = false;
  const first = leave.then(() => {
    isAsked = true;
  });
  return {
    ...{ first, second: leaveNow, third: new Promise(() => {}) },
    get isAsked() {
      return isAsked;
    },
    close() {},
  };
}
