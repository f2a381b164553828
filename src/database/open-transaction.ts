/** A transaction as its callback sees it: it takes statements until the callback has ended, and refuses them from then on. */
import { TransactionEndedError } from "./errors.ts";

type Query = <Row>(text: string, values?: readonly unknown[]) => Promise<Row[]>;

export interface OpenTransaction {
  readonly query: Query;
  /** What was asked while this ran is in the transaction, also if nobody awaited it: the connection runs it before the commit. */
  during<T>(work: () => Promise<T>): Promise<T>;
  /** The error of a statement in it that the callback may have caught. */
  readonly lastFailure: unknown;
}

/** Its connection goes on to others: a statement that came later would commit by itself, or belong to somebody else's transaction. */
export function openTransaction(run: Query): OpenTransaction {
  let hasEnded = false;
  let lastFailure: unknown;
  return {
    async query(text, values) {
      if (hasEnded) throw new TransactionEndedError();
      try {
        return await run(text, values);
      } catch (error) {
        lastFailure = error;
        throw error;
      }
    },
    async during(work) {
      try {
        return await work();
      } finally {
        hasEnded = true;
      }
    },
    get lastFailure() {
      return lastFailure;
    },
  };
}
