/** Whether an owner's tasks may be recovered by hand, and what is on record about the owner then. Pure. */
import type { RecoverySettings } from "../config/recovery-options.ts";
import type { OwnerSigns } from "../sql/stale-tasks.ts";
import type { DeathReason } from "../task/death.ts";
import { heartLimits, type Limits, limitsByHand, type OwnedState, sessionGoneAtLeastMs } from "./limits.ts";
import type { Death } from "./recovery-action.ts";
import type { StaleTask } from "./stale-tasks.ts";
import { type Silence, verdictOn } from "./verdict.ts";

export interface OwnerByHand {
  readonly isStale: boolean;
  /** The owner is dead, gone, or gives no sign of life that counts: its running tasks have crashed. */
  readonly isDead: boolean;
}

/**
 * Without `afterMs`, as a reaper would judge it by these settings. With it, from that silence on, but not before the owner's heart has
 * promised to have stopped its work: for want of beats, or because its session has ended.
 */
export function ownerByHand(
  owner: OwnerSigns,
  state: OwnedState,
  settings: RecoverySettings,
  afterMs: number | undefined,
): OwnerByHand {
  const { ownerStatus, silentForMs, hasSession, holdsSession } = owner;
  const isHere = ownerStatus === "online" || ownerStatus === "draining";
  if (!isHere || owner.promiseMs === null) return { isStale: true, isDead: true };
  // Nobody has ever listened, so nobody knows.
  if (silentForMs === null) return { isStale: false, isDead: false };
  const isDeadAs = (as: OwnedState) => isDeadBy(owner, heartLimits(owner, settings, as));
  const isDead = isDeadAs("running");
  if (afterMs === undefined) return { isStale: isDead || isDeadAs(state), isDead };
  const { chosen, promised } = limitsByHand(owner, afterMs);
  const isGone = hasSession && !holdsSession;
  const signs = { silentForMs, sessionFreeForMs: isGone ? sessionGoneAtLeastMs(owner) : null };
  const byPromise = verdictOn(signs, promised);
  return {
    isStale: isDeadBy(signs, chosen) && byPromise.kind === "dead",
    isDead: isDead || (byPromise.kind === "dead" && byPromise.because === "session-lost"),
  };
}

function isDeadBy(silence: Silence, limits: Limits): boolean {
  return verdictOn(silence, limits).kind === "dead";
}

/** What is known of the death of such an owner, for the post-mortems of its attempts. */
export function deathByHand(owner: Pick<StaleTask, "owner" | "ownerStatus" | "hostname" | "silentForMs">): Death {
  const { ownerStatus } = owner;
  return {
    replicaId: owner.owner,
    hostname: owner.hostname ?? undefined,
    because: reasonByHand(ownerStatus),
    silentForMs: owner.silentForMs ?? undefined,
  };
}

/** What one that was declared dead died of is in its record, which is read for its post-mortem. */
function reasonByHand(status: StaleTask["ownerStatus"]): DeathReason {
  switch (status) {
    case "offline":
    case "missing":
      return status;
    case "dead":
      return "unknown";
    case "online":
    case "draining":
      return "silent";
  }
}
