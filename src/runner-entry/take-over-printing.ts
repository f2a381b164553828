/**
 * What the handlers of a runner print never fails them, holds them up or fills their memory. Their replica may be blocked and read nothing for
 * a while: then lines are dropped, and the replica is told how many.
 */
import { outletOf } from "../log-outlet.ts";
import type { FromRunner } from "../runner/protocol.ts";

const COUNT_EVERY_MS = 1_000;

export function takeOverPrinting(send: (message: FromRunner) => void): void {
  const outlets = [outletOf(process.stdout), outletOf(process.stderr)];
  let dropped = 0;
  const tellOfDropped = () => {
    const lines = outlets.reduce((sum, { health }) => sum + health.dropped, 0) - dropped;
    const reason = outlets.find(({ health }) => health.dropped > 0)?.health.reason ?? "";
    if (lines > 0) send({ type: "dropped", lines, reason });
    dropped += lines;
  };
  for (const outlet of outlets) outlet.takeOver();
  setInterval(tellOfDropped, COUNT_EVERY_MS).unref();
}
