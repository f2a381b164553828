/** How `snooze` leaves a handler: thrown, so that it never returns, and told apart from a failure. */
import { type Duration, durationMs } from "../config/duration.ts";
import { InvalidOptionsError } from "../config/problems.ts";

export class Snooze extends Error {
  constructor(readonly delayMs: number) {
    super("snoozed");
  }
}

export function snooze(duration: Duration): never {
  const ms = durationMs(duration);
  if (ms === undefined || ms < 0)
    throw new InvalidOptionsError("snooze", [`must be a duration such as "5m", not ${String(duration)}`]);
  throw new Snooze(ms);
}
