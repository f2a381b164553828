/**
 * What the handlers of a runner print never fails them, holds them up or fills their memory. Their replica may be blocked and read nothing for
 * a while: then lines are dropped, and the replica is told how many.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { LogOutlet } from "../outlet/log-outlet.ts";
import { outletOf } from "../outlet/outlets.ts";
import type { FromRunner } from "../runner/protocol.ts";

const COUNT_EVERY_MS = 1_000;
/** Of the time that the replica gives a runner to leave. The rest is for its exit. It takes so long only where the replica is blocked, or the machine is very busy. */
const LAST_WORDS_SHARE = 0.6;

const outlets = () => [outletOf(process.stdout), outletOf(process.stderr)];

export function takeOverPrinting(): void {
  for (const outlet of outlets()) outlet.takeOver();
}

/** Tells the replica, from here on, how many lines were dropped, and why. */
export class DroppedLines {
  readonly #send: (message: FromRunner) => void;
  readonly #told = new Map<LogOutlet, number>();

  constructor(send: (message: FromRunner) => void) {
    this.#send = send;
    setInterval(() => this.#tell(), COUNT_EVERY_MS).unref();
  }

  /** Before the runner leaves: what its handlers have printed is passed on, and what the replica does not take within a moment is counted. */
  async sayLast(withinMs: number): Promise<void> {
    const flushed = Promise.all(outlets().map((outlet) => outlet.flushed()));
    await Promise.race([flushed, delay(LAST_WORDS_SHARE * withinMs)]);
    for (const outlet of outlets()) outlet.giveUp();
    this.#tell();
  }

  #tell(): void {
    for (const outlet of outlets()) {
      const { dropped, reason } = outlet.health;
      const lines = dropped - (this.#told.get(outlet) ?? 0);
      this.#told.set(outlet, dropped);
      if (lines > 0) this.#send({ type: "dropped", lines, reason });
    }
  }
}
