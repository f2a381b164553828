/** A pool of the caller's, which ends with its test. */
import pg from "pg";
import { onTestFinished } from "vitest";

export function createCallersPool(
  config: pg.PoolConfig,
  whenFinished: typeof onTestFinished = onTestFinished,
): pg.Pool {
  const pool = new pg.Pool(config);
  whenFinished(async () => {
    // The driver does not wait until its connections are closed. The database may be dropped meanwhile, of which they are told.
    pool.on("error", () => {});
    if (!pool.ended) await pool.end();
  });
  return pool;
}
