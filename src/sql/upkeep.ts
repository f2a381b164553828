/** Small things put right without anybody asking. */
import type { Store } from "../database/database.ts";

export interface UpkeepReport {
  readonly expired: number;
  readonly unparked: number;
  readonly cancelled: number;
  readonly purged: number;
}

export interface Retention {
  readonly maxAgeMs: number | undefined;
  readonly maxCount: number | undefined;
}

const MINUTE_MS = 60_000;

/** An age is kept to within a tenth of it, or to the minute. */
function purgeEveryMs({ maxAgeMs = Number.POSITIVE_INFINITY }: Retention): number {
  return Math.min(MINUTE_MS, Math.ceil(maxAgeMs / 10));
}

/** Undefined: somebody else is at it. */
export async function runUpkeep(store: Store, retention: Retention, batch: number): Promise<UpkeepReport | undefined> {
  const [row] = await store.query<UpkeepReport>(`select * from ${store.schema}.run_upkeep($1, $2, $3, $4)`, [
    retention.maxAgeMs ?? null,
    retention.maxCount ?? null,
    purgeEveryMs(retention),
    batch,
  ]);
  return row;
}
