/** How quickly a crash is known here: by the end of a session, or only by silence. */
import { advise } from "../advice.ts";
import { formatDuration } from "../config/duration.ts";
import { PROFILES, type RecoverySettings } from "../config/recovery-options.ts";
import type { Database } from "../database/database.ts";
import { heartStateOf } from "../recovery/heart-state.ts";
import { knownWithinMs } from "../recovery/limits.ts";
import { sweepPatienceMs } from "../recovery/sweeping.ts";
import { readFleetSettings } from "../sql/fleet-settings.ts";
import { listReplicas, type ReplicaRow } from "../sql/replicas.ts";
import { type Finding, good, skipped, warning } from "./finding.ts";

export async function checkHearts(database: Database): Promise<Finding> {
  const [first] = await readFleetSettings(database);
  const patienceMs = sweepPatienceMs(first?.settings.checkMs ?? PROFILES.fast.checkMs);
  return judgeHearts(await listReplicas(database, patienceMs), first?.settings);
}

export function judgeHearts(replicas: readonly ReplicaRow[], settings: RecoverySettings | undefined): Finding {
  const here = replicas.filter(({ status }) => status === "online" || status === "draining");
  if (here.length === 0 || !settings) return skipped("hearts", "no worker is online");
  const unwell = here.filter((replica) => !["fresh", "blocked"].includes(heartStateOf(replica, settings)));
  const known = knownWithinMs(settings);
  const bySilence = formatDuration(known.silenceMs);
  if (unwell.length > 0) {
    const which = here.length === 1 ? "the one heart" : `${unwell.length} of ${here.length} hearts`;
    const found = `${which} ${unwell.length === 1 ? "is not heard as it" : "are not heard as they"} should be`;
    return warning("hearts", found, advise("See which, and for how long.", "replicas.list", {}));
  }
  const all = here.length === 1 ? "the one heart is heard" : `all ${here.length} hearts are heard`;
  if (known.sessionMs === undefined)
    return good("hearts", `${all}; sessions do not count by these settings, so a crash is known within ${bySilence}`);
  const without = here.filter((replica) => !replica.hasSession).length;
  if (without > 0) {
    const found = `${all}, but ${without} of them without a session of its own, so a crash there is known within ${bySilence} and not in about a second`;
    const advice =
      "A pooler in transaction mode sits in between. Give the workers the server's own address, or a session-mode pool.";
    return warning("hearts", found, advice);
  }
  const bySession = formatDuration(known.sessionMs);
  return good(
    "hearts",
    `${all}; a crash is known within ${bySession} by its session, a vanished host within ${bySilence}`,
  );
}
