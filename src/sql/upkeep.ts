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

/** Undefined: somebody else is at it. */
export async function runUpkeep(store: Store, retention: Retention, batch: number): Promise<UpkeepReport | undefined> {
  const [row] = await store.query<UpkeepReport>(`select * from ${store.schema}.run_upkeep($1, $2, $3)`, [
    retention.maxAgeMs ?? null,
    retention.maxCount ?? null,
    batch,
  ]);
  return row;
}
