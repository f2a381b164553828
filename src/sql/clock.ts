/** The database's clock: the one that stamps everything. */
import type { Store } from "../database/database.ts";

export async function readClock(store: Store): Promise<Date> {
  const [row] = await store.query<{ now: Date }>("select clock_timestamp() as now");
  return row?.now ?? new Date();
}
