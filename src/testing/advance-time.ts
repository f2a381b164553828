/** Time passes, without waiting for it. */

import { isDuration } from "../config/checks.ts";
import { type Duration, MAX_DURATION_MS } from "../config/duration.ts";
import { Problems } from "../config/problems.ts";
import { createBackoff } from "../database/backoff.ts";
import { isTransient } from "../database/transient.ts";
import type { Everbeat } from "../everbeat.ts";
import { moveIntoPast } from "../sql/testing.ts";

const TRIES = 10;

/**
 * The database's clock decides everything and cannot be set, so the world is moved back instead of the clock forward:
 * delays, retries, expiry, unique windows, rates, grace and retention are that much further on.
 */
export async function advanceTime(everbeat: Everbeat, duration: Duration): Promise<void> {
  const ms = checkAdvance(duration);
  const backoff = createBackoff({ firstMs: 20, maxMs: 500 });
  for (let tries = 1; ; tries++) {
    try {
      return await everbeat.database.transaction((tx) => moveIntoPast(tx, ms));
    } catch (error) {
      // It touches every row, so it may deadlock with workers that are at work, and all of it is rolled back then.
      if (!isTransient(error) || tries >= TRIES) throw error;
      await backoff.pause();
    }
  }
}

const isAdvance = isDuration({ minMs: 0, maxMs: MAX_DURATION_MS });

export function checkAdvance(duration: unknown): number {
  const problems = new Problems();
  const ms = isAdvance(duration, "duration", problems);
  problems.throwIfAny("advanceTime");
  return ms as number;
}
