/** Whether anybody listens for silence: where nobody sweeps, nobody's tasks are recovered. */
import { adviceOnHold } from "../alert-advice.ts";
import { formatDuration } from "../config/duration.ts";
import { PROFILES, type RecoverySettings } from "../config/recovery-options.ts";
import type { Database } from "../database/database.ts";
import { holdWords } from "../recovery/hold-words.ts";
import { isSweeping, sweepPatienceMs } from "../recovery/sweeping.ts";
import { readActingSettings } from "../sql/fleet-settings.ts";
import { type Listening, readListening } from "../sql/recovery.ts";
import { listReplicas, type ReplicaRow } from "../sql/replicas.ts";
import { type Finding, good, skipped, warning, wrong } from "./finding.ts";

export async function checkReaper(database: Database): Promise<Finding> {
  const settings = await readActingSettings(database);
  const replicas = await listReplicas(database, sweepPatienceMs(settings?.checkMs ?? PROFILES.fast.checkMs));
  return judgeReaper(await readListening(database), replicas, settings);
}

export function judgeReaper(
  listening: Listening | undefined,
  replicas: readonly Pick<ReplicaRow, "status" | "claimed" | "running">[],
  settings: RecoverySettings | undefined,
): Finding {
  const checkMs = settings?.checkMs ?? PROFILES.fast.checkMs;
  const online = replicas.filter(({ status }) => status === "online" || status === "draining").length;
  const held = replicas.reduce((sum, { claimed, running }) => sum + claimed + running, 0);
  if (listening && isSweeping(listening, checkMs)) return sweeping(listening, checkMs);
  const last = listening
    ? `nobody has listened for ${formatDuration(listening.sweptAgoMs)}`
    : "nobody has ever listened";
  if (online === 0 && held === 0) return skipped("reaper", "no worker is online to sweep");
  if (online === 0) {
    const found = `${last}: no worker is online, and ${held} tasks are held by workers that are gone`;
    return wrong("reaper", found, START);
  }
  const found = `${last}, though ${online} ${online === 1 ? "replica is" : "replicas are"} on record as online`;
  return wrong("reaper", found, START, LOOK_INTO_LOGS);
}

const START =
  "Start a worker: it sweeps at once, and recovers what workers that are gone have left in a second or two, or, where the database was restarted meanwhile, after the silence that counts as death. The embedded server is: it stops with its last process.";
const LOOK_INTO_LOGS =
  'If they do run, look into their logs for "listening for silence": they do not reach the database, or their sweeps fail.';

function sweeping({ sweptAgoMs, sweepMs, holds }: Listening, checkMs: number): Finding {
  const took = sweepMs === null ? "" : ` and took ${formatDuration(sweepMs)}`;
  const found = `the last sweep was ${formatDuration(Math.max(0, sweptAgoMs))} ago${took} (one every ${formatDuration(checkMs)})`;
  if (holds.length === 0) return good("reaper", found);
  const held = [found, ...holds.map((hold) => holdWords(hold))].join("; ");
  const advice = holds.filter(({ isConfirmed }) => !isConfirmed).map(adviceOnHold);
  return warning("reaper", held, "It goes on when they are heard again, or at its cap.", ...advice);
}
