/**
 * What the handlers of a runner print never fails them, holds them up or fills their memory. Their replica may be blocked and read nothing for
 * a while: then lines are dropped, and the replica is told how many.
 */
import type { LogOutlet } from "../outlet/log-outlet.ts";
import { outletOf } from "../outlet/outlets.ts";
import type { FromRunner } from "../runner/protocol.ts";

const COUNT_EVERY_MS = 1_000;

const outlets = () => [outletOf(process.stdout), outletOf(process.stderr)];

export function takeOverPrinting(): void {
  for (const outlet of outlets()) outlet.takeOver();
}

/** From here on tells the replica how many lines were dropped, and why. Returns how to do so at once, which the last words are for. */
export function tellOfDropped(send: (message: FromRunner) => void): () => void {
  const told = new Map<LogOutlet, number>();
  const tell = () => {
    for (const outlet of outlets()) {
      const { dropped, reason } = outlet.health;
      const lines = dropped - (told.get(outlet) ?? 0);
      told.set(outlet, dropped);
      if (lines > 0) send({ type: "dropped", lines, reason });
    }
  };
  setInterval(tell, COUNT_EVERY_MS).unref();
  return tell;
}
