/** What the measured tasks do: the same for every system, which only has to call them. */
import { setTimeout as pause } from "node:timers/promises";
import { nowNs } from "./clock.js";

/** Each gets the task's input, and a tally that the process reports to the bench. */
export const HANDLERS = {
  nothing: () => () => undefined,
  millisecond: () => () => pause(1),
  /** How long ago the task was enqueued, by the clock that all processes share. */
  latency: (tally) => (input) => {
    tally.latenciesMs.push((nowNs() - input.at) / 1e6);
  },
  /** Its result is as large as its input. */
  echo: () => (input) => Promise.resolve(input),
  /** Until the process ends. */
  hold: () => () => new Promise(() => {}),
};

export function createTally() {
  return { started: 0, handled: 0, firstNs: 0, lastNs: 0, latenciesMs: [] };
}

/** Without a promise where the handler makes none: a system that can do without is not charged for one. */
export function counting(handler, tally) {
  const done = (result) => {
    tally.handled++;
    tally.lastNs = nowNs();
    return result;
  };
  return (input) => {
    if (tally.started++ === 0) tally.firstNs = nowNs();
    const running = handler(input);
    if (running === undefined) return done();
    return running.then(done);
  };
}
