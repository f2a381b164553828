/** Claims and their tasks as statements take them: two lists, in one order. */
import type { ClaimId, ClaimOnTask, TaskId } from "../task/ids.ts";

export function listsOf(claims: readonly ClaimOnTask[]): [claims: ClaimId[], tasks: TaskId[]] {
  return [claims.map(({ claimId }) => claimId), claims.map(({ taskId }) => taskId)];
}
