/** The claim as a handler sees it: its fencing token, usable in the handler's own transactions. */
import { databaseError } from "../database/database-error.ts";
import { storeInTransaction } from "../database/transaction-store.ts";
import { guardClaim } from "../sql/outcomes.ts";
import type { Claim, Transaction } from "../task/context.ts";
import {
  ClaimLostError,
  CompletedDifferentlyError,
  NotInTransactionError,
  ResultNotStorableError,
} from "../task/errors.ts";
import type { ClaimOnTask, ReplicaId } from "../task/ids.ts";
import { toJson } from "../task/json.ts";

export interface ClaimHandle extends Claim {
  readonly completedInTransaction: boolean;
  /** The handler, which runs elsewhere, has completed the task in a transaction there. */
  noteCompletedInTransaction(): void;
}

export interface ClaimHandleParts extends ClaimOnTask {
  readonly name: string;
  readonly replicaId: ReplicaId;
  readonly schema: string;
  readonly resultLimitBytes: number;
  /** Called before the handler goes on, and so before it can commit. */
  readonly onCompletedInTransaction?: () => void;
  /** Writes what the attempt has said of itself: once it has ended, that would be refused. */
  readonly settle?: () => Promise<void>;
}

export function createClaimHandle(parts: ClaimHandleParts): ClaimHandle {
  let completedInTransaction = false;

  /** The database refuses with codes of its own. If the claim is lost at commit, the handler's own `commit` fails with that code. */
  const refusals = (cause: unknown): never => {
    const { claimId, taskId } = parts;
    const code = databaseError(cause)?.code;
    if (code === "EB001") throw new ClaimLostError(claimId, taskId, { cause });
    if (code === "EB006") {
      const wanted = `Claim ${claimId} on task ${taskId} was to be checked when a transaction commits`;
      throw new NotInTransactionError(wanted, { cause });
    }
    if (code === "EB007") throw new CompletedDifferentlyError(taskId, { cause });
    throw cause;
  };

  return {
    id: parts.claimId,
    get completedInTransaction() {
      return completedInTransaction;
    },
    noteCompletedInTransaction() {
      completedInTransaction = true;
    },
    async guard(tx: Transaction) {
      await guardClaim(storeInTransaction(tx, parts.schema), parts).catch(refusals);
    },
    async completeIn<Result>(tx: Transaction, result: Result) {
      const json = toJson(result, parts.resultLimitBytes);
      if (!json.ok) throw new ResultNotStorableError(parts.name, json);
      const store = storeInTransaction(tx, parts.schema);
      await parts.settle?.();
      await guardClaim(store, parts, {
        claim: parts.claimId,
        task: parts.taskId,
        replica: parts.replicaId,
        to: "completed",
        outcome: "completed",
        resultJson: json.text,
      }).catch(refusals);
      completedInTransaction = true;
      parts.onCompletedInTransaction?.();
      return result;
    },
  };
}
