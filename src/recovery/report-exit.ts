/**
 * First-hand evidence: whoever started a worker's process has seen it end. It is declared dead and its tasks are put right
 * at once, without waiting for a silence.
 */

import type { RecoverySettings } from "../config/recovery-options.ts";
import { delay } from "../database/backoff.ts";
import type { Database } from "../database/database.ts";
import { breaksConnection, isLocked } from "../database/transient.ts";
import type { Events } from "../events.ts";
import { declareExited, type ExitVerdict } from "../sql/hearts.ts";
import { mayHaveProcesses } from "../sql/runners.ts";
import type { GroupMemory } from "../task/death.ts";
import { readDeath } from "../task/death.ts";
import type { ReplicaId } from "../task/ids.ts";
import { PassedBy, type PassedByParts } from "./passed-by.ts";
import { POST_MORTEMS, PostMortems } from "./post-mortems.ts";
import { RECOVERY_OF_TASKS, type Recovered, recoverTasksOf } from "./recover.ts";
import type { Death } from "./recovery-action.ts";

export interface ProcessExit {
  readonly replicaId: ReplicaId;
  /** Null where a signal ended it. */
  readonly exitCode: number | null;
  readonly signal: string | null;
  /** It had been asked to leave by whoever saw it end: a shutdown, which is nobody's crash. */
  readonly wasAsked: boolean;
  /** The memory of the cgroup that it shared with whoever saw it end. */
  readonly group: GroupMemory | undefined;
  /** Replicas whose processes shared that memory with it. */
  readonly sharedWith: readonly ReplicaId[] | undefined;
}

export interface ExitReport {
  /** `not-alive`: it had left, or was declared dead before. `session-held` and `locked`: left to the verdict on its silence. */
  readonly verdict: ExitVerdict;
  readonly recovered: readonly Recovered[];
}

/** A backend notices within milliseconds that its client is gone. One behind a proxy may not, and is waited with for this long. */
const SESSION_ENDS_WITHIN_MS = 2_000;
/**
 * The processes of its runners end a moment after it: by the runner's heart after 50 ms (ORPHAN_GRACE_MS), or by the guardian after 100 ms
 * (GUARDIAN_GRACE_MS) where the runner was killed too. Nobody may run their tasks again before that. It is waited for longer than the guardian
 * waits, since a shell on a busy machine may notice the end late and act late, and nobody tells when it has.
 */
const RUNNERS_END_WITHIN_MS = 300;
const FIRST_LOOK_AGAIN_MS = 5;
const LAST_LOOK_AGAIN_MS = 100;

export async function reportExit(
  parts: { database: Database; events: Events; settings: RecoverySettings; random: () => number },
  exit: ProcessExit,
): Promise<ExitReport> {
  if (await mayHaveProcesses(parts.database, exit.replicaId)) await delay(RUNNERS_END_WITHIN_MS);
  const until = performance.now() + SESSION_ENDS_WITHIN_MS;
  for (let pauseMs = FIRST_LOOK_AGAIN_MS; ; pauseMs = Math.min(pauseMs * 2, LAST_LOOK_AGAIN_MS)) {
    const { verdict, death } = await declareExited(parts.database, exit.replicaId, exit).catch(lockedOr);
    if (verdict === "dead") {
      const known = { ...readDeath(death), replicaId: exit.replicaId };
      return { verdict, recovered: await recover(parts, known) };
    }
    if (verdict === "not-alive" || performance.now() > until) return { verdict, recovered: [] };
    await delay(pauseMs);
  }
}

function lockedOr(error: unknown): { verdict: "locked"; death: null } {
  if (!isLocked(error)) throw error;
  return { verdict: "locked", death: null };
}

async function recover(parts: Parameters<typeof reportExit>[0], death: Death): Promise<Recovered[]> {
  const { hostname, because } = death;
  const replicaId = death.replicaId as ReplicaId;
  parts.events.emit("replica.dead", { replicaId, because, hostname });
  const postMortems = new PostMortems(parts);
  const told = (await postMortems.examineDead([replicaId], passedBy(parts, POST_MORTEMS))).get(replicaId);
  const known = told ? { ...death, probableCause: told.cause, sentence: told.sentence } : death;
  return recoverTasksOf({ ...parts, postMortems, passedBy: passedBy(parts, RECOVERY_OF_TASKS) }, known);
}

/**
 * What cannot be put right is left to the next sweep, which tells of it too. So a lock stops nothing here, nor does the refusal of an alert. After a
 * reply that was lost, the caller reports again.
 */
function passedBy(parts: Pick<PassedByParts, "database" | "events">, part: string): PassedBy {
  const onError = (error: unknown) => {
    if (breaksConnection(error)) throw error;
  };
  return new PassedBy({ service: "sweep", part }, { ...parts, onError });
}
