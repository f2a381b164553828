/** How `snooze` leaves a handler: thrown, so that it never returns, and told apart from a failure. */
import { isDuration } from "../config/checks.ts";
import { type Duration, MAX_DURATION_MS } from "../config/duration.ts";
import { Problems } from "../config/problems.ts";

export class Snooze extends Error {
  constructor(readonly delayMs: number) {
    super("snoozed");
  }
}

const isSnooze = isDuration({ minMs: 0, maxMs: MAX_DURATION_MS });

export function snooze(duration: Duration): never {
  const problems = new Problems();
  const ms = isSnooze(duration, "", problems);
  problems.throwIfAny("snooze");
  throw new Snooze(ms ?? 0);
}
