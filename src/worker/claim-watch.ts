/** Looks which claims still hold and which should be given up: the worker's own look, also when nobody told it. */
import type { Database } from "../database/database.ts";
import { createService, type Service } from "../services/service.ts";
import { readOwnClaims } from "../sql/claims.ts";
import { ClaimLostError, TaskCancelledError } from "../task/errors.ts";
import type { ClaimId, ClaimOnTask, ReplicaId } from "../task/ids.ts";
import type { Execution } from "./execution.ts";
import type { Hand } from "./hand.ts";

export function createClaimWatch(parts: {
  database: Database;
  replica: { readonly id: ReplicaId };
  hand: Hand;
  /** While claims move to another id, none of them is where one would look. */
  isMoving: () => boolean;
  intervalMs: number;
  onLooked: () => void;
  /** A claim is ours without our knowing. Perhaps its reply is on its way, perhaps it was lost. */
  onUnknown: () => void;
  /** Lost or cancelled while they waited for a slot. */
  onUnbegun: (claims: ReadonlySet<ClaimId>) => void;
  onLost: (execution: Execution) => void;
  onError: (error: unknown) => void;
}): Service {
  const { database, replica, hand, isMoving, intervalMs, onLooked, onUnknown, onUnbegun, onLost, onError } = parts;
  return createService({
    name: "claim watch",
    intervalMs,
    onError,
    async runOnce() {
      if (isMoving()) return;
      const { id } = replica;
      const before = hand.executions();
      const waiting = hand.reserve.tasks();
      const rows = await readOwnClaims(database, id);
      if (isMoving() || replica.id !== id) return;
      const known = new Map(hand.claims().map(({ claimId, taskId }) => [claimId, taskId]));
      if (rows.some(({ claimId, taskId }) => known.get(claimId) !== taskId)) onUnknown();
      onLooked();
      const own = new Map(rows.map((row) => [row.claimId, row]));
      const heldOn = ({ claimId, taskId }: ClaimOnTask) => {
        const row = own.get(claimId);
        return row?.taskId === taskId ? row : undefined;
      };
      const stopped = waiting.filter((task) => heldOn(task)?.isCancelled !== false);
      if (stopped.length > 0) onUnbegun(new Set(stopped.map(({ claimId }) => claimId)));
      // Also those that have begun meanwhile.
      for (const execution of hand.executions()) {
        const row = heldOn(execution.claimed);
        if (row?.isCancelled) execution.abort(new TaskCancelledError(row.taskId, row.reason ?? undefined));
      }
      for (const execution of before) {
        const { claimId, taskId } = execution.claimed;
        // Ended in the meantime, by ourselves, or told to stop already.
        if (execution.hasEnded || execution.isAborted) continue;
        if (heldOn(execution.claimed) || execution.completedInTransaction) continue;
        execution.abort(new ClaimLostError(claimId, taskId));
        onLost(execution);
      }
    },
  });
}
