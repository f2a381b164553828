/** How claims come from the database: without what is nearly always the same, which is put back here. */
import type { ClaimedTask } from "./claims.ts";

/** A row of the type `claim_row`: a claim, or what is said besides. */
export interface ClaimRow {
  readonly state: "claimed" | "running" | "lane" | "more" | "ended" | null;
  readonly input: unknown;
}

export interface ClaimsRead {
  readonly claimed: ClaimedTask[];
  /** There was so much in the way that the search was over before it had seen everything. */
  readonly hasMore: boolean;
  /** What the ending in the same statement had to say; null if all went as asked. */
  readonly ended: unknown;
}

export const CLAIM_COLUMNS = `claim_id as "claimId", task_id as "taskId", state, name, attempt, failures, crashes, created_ms as "createdMs",
  input, metadata, exclusive_key as "exclusiveKey", queue, priority, lane_id as "laneId", run_at::text as "runAt"`;

type Writable<T> = { -readonly [Key in keyof T]: T[Key] };

/** In place: these objects are nobody else's, and there may be tens of thousands a second. */
export function readClaims(rows: readonly ClaimRow[]): ClaimsRead {
  const claimed: Writable<ClaimedTask>[] = [];
  let ended: unknown = null;
  let hasMore = false;
  let read = 0;
  for (const row of rows) {
    if (row.state === "ended") {
      ended = row.input;
    } else if (row.state === "more") {
      hasMore = true;
    } else if (row.state === "lane") {
      const lane = row as unknown as ClaimedTask;
      for (; read < claimed.length; read++) placeIn(claimed[read] as Writable<ClaimedTask>, lane);
      markLast(claimed.at(-1), lane);
    } else {
      claimed.push(complete(row as unknown as Writable<ClaimedTask>));
    }
  }
  return { claimed, hasMore, ended };
}

function complete(claim: Writable<ClaimedTask>): Writable<ClaimedTask> {
  claim.state ??= "running";
  claim.attempt ??= 1;
  claim.failures ??= 0;
  claim.crashes ??= 0;
  claim.createdMs = Number(claim.createdMs);
  return claim;
}

function placeIn(claim: Writable<ClaimedTask>, lane: ClaimedTask): void {
  claim.queue = lane.queue;
  claim.priority = lane.priority;
}

/** The next search of the lane begins behind it. */
function markLast(claim: Writable<ClaimedTask> | undefined, lane: ClaimedTask): void {
  if (claim === undefined) return;
  claim.laneId = lane.laneId;
  claim.runAt = lane.runAt;
}
