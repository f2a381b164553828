/** A claim that no database knows: it writes down what it is asked, and refuses where it is told to be lost. */

import { refuseUnlessTransaction } from "../database/transaction-store.ts";
import type { ClaimHandle } from "../runner/claim-handle.ts";
import type { Transaction } from "../task/context.ts";
import { ClaimLostError, ResultNotStorableError } from "../task/errors.ts";
import type { ClaimId, TaskId } from "../task/ids.ts";
import { toJson } from "../task/json.ts";

export interface RecordedCompletion<Output = unknown> {
  readonly tx: Transaction;
  readonly result: Output;
}

export interface FakeClaim extends ClaimHandle {
  /** The transactions that were guarded, in order. */
  readonly guarded: readonly Transaction[];
  readonly completions: readonly RecordedCompletion[];
}

export function createFakeClaim(parts: { claimId: ClaimId; taskId: TaskId; name: string; isLost: boolean }): FakeClaim {
  const guarded: Transaction[] = [];
  const completions: RecordedCompletion[] = [];
  const refuseIfLost = () => {
    if (parts.isLost) throw new ClaimLostError(parts.claimId, parts.taskId);
  };
  return {
    id: parts.claimId,
    guarded,
    completions,
    get completedInTransaction() {
      return completions.length > 0;
    },
    // Here the handler runs in the test's own process, never in a runner that would have to tell.
    noteCompletedInTransaction() {},
    async guard(tx) {
      refuseUnlessTransaction(tx);
      refuseIfLost();
      guarded.push(tx);
    },
    async completeIn(tx, result) {
      const json = toJson(result);
      if (!json.ok) throw new ResultNotStorableError(parts.name, json);
      refuseUnlessTransaction(tx);
      refuseIfLost();
      completions.push({ tx, result });
      return result;
    },
  };
}
