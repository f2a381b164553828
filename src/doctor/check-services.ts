/** Whether what runs once in the cluster is run, and goes well. That nobody sweeps is told by the check of the reaper. */
import { formatDuration } from "../config/duration.ts";
import { PROFILES } from "../config/recovery-options.ts";
import type { Database } from "../database/database.ts";
import { sweepPatienceMs } from "../recovery/sweeping.ts";
import { patienceMs } from "../services/line.ts";
import { SERVICES } from "../services/list.ts";
import { isOverdue, turnRemark } from "../services/turn-remark.ts";
import { listReplicas, type ReplicaRow } from "../sql/replicas.ts";
import { listTurns, type TurnRow } from "../sql/turns.ts";
import { type Finding, good, skipped, warning } from "./finding.ts";

export async function checkServices(database: Database): Promise<Finding> {
  const replicas = await listReplicas(database, sweepPatienceMs(PROFILES.fast.checkMs));
  return judgeServices(await listTurns(database), replicas);
}

export function judgeServices(turns: readonly TurnRow[], replicas: readonly KnownReplica[]): Finding {
  if (turns.length === 0) return skipped("services", "nothing has been run yet");
  if (!isSomebodyHere(turns, replicas)) return skipped("services", "no worker is online to run them");
  const wrong = turns.flatMap((turn) => {
    const remark = turn.service === "sweep" && isOverdue(turn) ? undefined : turnRemark(turn);
    return remark === undefined ? [] : [{ turn, remark }];
  });
  if (wrong.length === 0) return good("services", turns.map(lastRun).join("; "));
  const found = wrong.map(({ turn, remark }) => `${turn.service} ${remark} (last on ${turn.takenOn})`).join("; ");
  return warning("services", found, LOOK_INTO_LOGS);
}

type KnownReplica = Pick<ReplicaRow, "id" | "status">;

/** Whoever could run them takes a turn as often as that, also where other turns cannot be taken. */
const HERE_MS = patienceMs(SERVICES.upkeep.everyMs);

/** A process without a worker is on record nowhere but by the turns that it took of late. What a replica took that has left since says nothing. */
function isSomebodyHere(turns: readonly TurnRow[], replicas: readonly KnownReplica[]): boolean {
  if (replicas.some(({ status }) => status === "online" || status === "draining")) return true;
  const gone = new Set(replicas.map(({ id }) => id));
  return turns.some(
    (turn) => !gone.has(turn.takenBy) && !isOverdue(turn) && (turn.isRunning || turn.takenAgoMs < HERE_MS),
  );
}

const LOOK_INTO_LOGS =
  "The log of its process says what it failed with. If it is not run at all, look there for what keeps the process from the database.";

function lastRun({ service, takenAgoMs, tookMs, isRunning }: TurnRow): string {
  if (isRunning) return `${service} is under way`;
  const took = tookMs === null ? "" : ` in ${formatDuration(tookMs)}`;
  return `${service} ${formatDuration(Math.max(0, Math.round(takenAgoMs)))} ago${took}`;
}
