/** A transaction of the caller's own, of whatever library, as a store. */
import type { Transaction } from "../task/context.ts";
import type { Store } from "./database.ts";

export function storeInTransaction(tx: Transaction, schema: string): Store {
  return {
    schema,
    async query<Row>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
      const result = await tx.query(text, values as unknown[]);
      // `pg` and its kin answer { rows }, some libraries the rows themselves.
      if (Array.isArray(result)) return result as Row[];
      return ((result as { rows?: Row[] } | undefined)?.rows ?? []) as Row[];
    },
  };
}
