/** How claims come from the database: without what is nearly always the same, which is put back here. */
import type { ClaimId, TaskId } from "../task/ids.ts";
import type { ClaimedTask, LaneCursor } from "./claims.ts";

export interface ClaimsRead {
  readonly claimed: ClaimedTask[];
  /** Where the next search of each lane begins, in the order in which they were taken from. */
  readonly cursors: LaneCursor[];
  /** Everything that was due by then has been seen. Undefined where the search has not seen everything. */
  readonly seenUpTo: string | undefined;
  /** There was so much in the way that the search was over before it had seen everything. */
  readonly hasMore: boolean;
  /** So much in a lane waits for what another transaction has locked that the search of it ended halfway. The next one goes on there. */
  readonly isCutShort: boolean;
  /** It has passed something by that another transaction has locked: it may be free before long, and nobody tells. */
  readonly isHeldUp: boolean;
  /** A queue whose row it has waited for in vain. */
  readonly lockedQueue: string | undefined;
  /** It was asked to be told of new tasks, and will not be: somebody holds up the bells. */
  readonly isUnarmed: boolean;
  /** What the ending in the same statement had to say; null if all went as asked. */
  readonly ended: unknown;
}

/**
 * Of the type `claim_row`: a claim, or what is said besides. A time goes back to the database, perhaps on a session with another DateStyle.
 * In JSON it has one form, whatever the session has set.
 */
export function claimColumns(schema: string): string {
  return `claim_id, task_id, state, name, attempt, failures, crashes, created_ms, input, metadata,
    exclusive_key, queue, priority, lane_id, to_json(run_at) #>> '{}', ${suspicionColumn(schema)}`;
}

/** Nobody is a suspect at the first attempt, so that most claims ask nothing. */
function suspicionColumn(schema: string): string {
  return `case when attempt > 1 then nullif(${schema}.suspicion_of(task_id), 0) end`;
}

/** A row of these columns. */
type ClaimRow = readonly [
  claimId: ClaimId,
  taskId: TaskId | null,
  state: "claimed" | "running" | "lane" | "seen" | "more" | "short" | "held" | "unarmed" | "ended" | null,
  name: string,
  attempt: number | null,
  failures: number | null,
  crashes: number | null,
  createdMs: string,
  input: unknown,
  metadata: unknown,
  exclusiveKey: string | null,
  queue: string,
  priority: number,
  laneId: string | null,
  runAt: string | null,
  suspicion: number | null,
];

type Writable<T> = { -readonly [Key in keyof T]: T[Key] };

export function readClaims(rows: readonly unknown[][]): ClaimsRead {
  const claimed: Writable<ClaimedTask>[] = [];
  const cursors: LaneCursor[] = [];
  let ended: unknown = null;
  let seenUpTo: string | undefined;
  let hasMore = false;
  let isCutShort = false;
  let isHeldUp = false;
  let lockedQueue: string | undefined;
  let isUnarmed = false;
  let placed = 0;
  for (const row of rows as unknown as readonly ClaimRow[]) {
    const state = row[2];
    if (state === null || state === "running" || state === "claimed") {
      claimed.push(readClaim(row, state ?? "running"));
    } else if (state === "lane") {
      for (; placed < claimed.length; placed++) placeIn(claimed[placed] as Writable<ClaimedTask>, row);
      const cursor = cursorOf(row, claimed.at(-1));
      if (cursor) cursors.push(cursor);
    } else if (state === "seen") {
      seenUpTo = row[14] ?? undefined;
    } else if (state === "more") {
      hasMore = true;
    } else if (state === "short") {
      isCutShort = true;
      const cursor = cursorOf(row, undefined);
      if (cursor) cursors.push(cursor);
    } else if (state === "held") {
      isHeldUp = true;
      lockedQueue = row[11] ?? undefined;
    } else if (state === "unarmed") {
      isUnarmed = true;
    } else {
      ended = row[8];
    }
  }
  return { claimed, cursors, seenUpTo, hasMore, isCutShort, isHeldUp, lockedQueue, isUnarmed, ended };
}

/** By place, and all of one shape: there may be tens of thousands a second. */
function readClaim(row: ClaimRow, state: ClaimedTask["state"]): Writable<ClaimedTask> {
  return {
    claimId: row[0],
    taskId: row[1] as TaskId,
    state,
    name: row[3],
    attempt: row[4] ?? 1,
    failures: row[5] ?? 0,
    crashes: row[6] ?? 0,
    suspicion: row[15] ?? 0,
    createdMs: Number(row[7]),
    input: row[8],
    metadata: row[9],
    exclusiveKey: row[10],
    queue: row[11],
    priority: row[12],
  };
}

/** The claims of a lane come before the row that says which it is. */
function placeIn(claim: Writable<ClaimedTask>, lane: ClaimRow): void {
  claim.queue = lane[11];
  claim.priority = lane[12];
}

/** The next search of the lane begins behind the last of its claims, unless that was found by other means than a search. */
function cursorOf(lane: ClaimRow, last: ClaimedTask | undefined): LaneCursor | undefined {
  const taskId = lane[1] ?? last?.taskId;
  const [laneId, runAt] = [lane[13], lane[14]];
  return taskId && laneId !== null && runAt !== null ? { laneId, runAt, taskId } : undefined;
}
