/** For work that must not be held up by whoever has locked a table or a row: a statement of this transaction that waits for a lock soon fails. */
import type { Store } from "../database/database.ts";

export async function waitForNobody(tx: Store): Promise<void> {
  await tx.query("set local lock_timeout = '500ms'");
}
