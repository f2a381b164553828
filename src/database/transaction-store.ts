/** A transaction of the caller's own, of whatever library, as a store. */
import { InvalidOptionsError } from "../config/problems.ts";
import type { Transaction } from "../task/context.ts";
import type { Store } from "./database.ts";
import { databaseError } from "./database-error.ts";

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

const IDLE = "I";
const NO_TRANSACTION = "25P01";

/**
 * Whether what this runs commits by itself. A `pg` client tells whether it is in a transaction, as of its last reply. Where that says no,
 * a `begin` may still be on its way, and the server is asked. False where nothing can be told.
 */
export async function isOutsideTransaction(tx: Transaction): Promise<boolean> {
  const { getTransactionStatus } = tx as { getTransactionStatus?: () => unknown };
  if (typeof getTransactionStatus !== "function" || getTransactionStatus.call(tx) !== IDLE) return false;
  try {
    await tx.query("savepoint everbeat_enqueue");
  } catch (error) {
    if (databaseError(error)?.code === NO_TRANSACTION) return true;
    throw error;
  }
  await tx.query("release savepoint everbeat_enqueue");
  return false;
}
