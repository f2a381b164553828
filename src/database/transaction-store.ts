/** A transaction of the caller's own, of whatever library, as a store. */
import { InvalidOptionsError } from "../config/problems.ts";
import type { Transaction } from "../task/context.ts";
import type { Store } from "./database.ts";

/** Each query of a pool may run on another connection: what looks like a transaction would be none. */
export function isPool(tx: unknown): boolean {
  const candidate = tx as { connect?: unknown; totalCount?: unknown } | null;
  return typeof candidate?.connect === "function" && typeof candidate.totalCount === "number";
}

export const NOT_A_TRANSACTION = "must have a function query(text, values), as a pg client has";

export function isTransaction(tx: unknown): tx is Transaction {
  return typeof (tx as Transaction | null | undefined)?.query === "function";
}

export function refuseUnlessTransaction(tx: unknown): void {
  if (isPool(tx))
    throw new InvalidOptionsError("tx", ["is a pool, not a transaction; pass the client that has begun it"]);
  if (!isTransaction(tx)) throw new InvalidOptionsError("tx", [NOT_A_TRANSACTION]);
}

export function storeInTransaction(tx: Transaction, schema: string): Store {
  refuseUnlessTransaction(tx);
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
