/**
 * What the handlers of a runner print never fails them, holds them up or fills their memory. Their replica may be blocked and read nothing for
 * a while: then lines are dropped, and the replica is told how many.
 */
import { outletOf } from "../outlet/outlets.ts";
import type { FromRunner } from "../runner/protocol.ts";

const COUNT_EVERY_MS = 1_000;

const outlets = () => [outletOf(process.stdout), outletOf(process.stderr)];

export function takeOverPrinting(): void {
  for (const outlet of outlets()) outlet.takeOver();
}

/** Tells the replica, from here on, how many lines were dropped. */
export function tellOfDropped(send: (message: FromRunner) => void): void {
  let dropped = 0;
  const tell = () => {
    const lines = outlets().reduce((sum, { health }) => sum + health.dropped, 0) - dropped;
    const reason = outlets().find(({ health }) => health.dropped > 0)?.health.reason ?? "";
    if (lines > 0) send({ type: "dropped", lines, reason });
    dropped += lines;
  };
  setInterval(tell, COUNT_EVERY_MS).unref();
}
