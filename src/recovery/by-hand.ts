/** Whether an owner's tasks may be recovered by hand, and what is on record about the owner then. Pure. */
import type { RecoverySettings } from "../config/recovery-options.ts";
import type { OwnerSigns } from "../sql/stale-tasks.ts";
import type { DeathReason } from "../task/death.ts";
import { heartLimits, limitsByHand, type OwnedState } from "./limits.ts";
import type { Death } from "./recovery-action.ts";
import type { StaleTask } from "./stale-tasks.ts";
import { verdictOn } from "./verdict.ts";

/** A beat may come later than its interval says. */
const LONGEST_INTERVALS = 1.5;

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
  const isDeadAs = (as: OwnedState) => verdictOn(owner, heartLimits(owner, settings, as)).kind === "dead";
  const isDead = isDeadAs("running");
  if (afterMs === undefined) return { isStale: isDead || isDeadAs(state), isDead };
  const limits = limitsByHand(owner, afterMs);
  const hasEnded = hasSession && !holdsSession && sessionEndedForMs(owner) > limits.sessionGoneAfterMs;
  const isStale = silentForMs > limits.deadAfterMs || (silentForMs > afterMs && hasEnded);
  return { isStale, isDead: isDead || hasEnded };
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

/**
 * For how long at least a session that is gone has been gone. Reapers note it; where none listens, it follows from the beats: there was none in the
 * time since, and the last one before may have been an interval earlier. A heart that is connecting anew has lost its session a moment ago.
 */
function sessionEndedForMs({ sessionFreeForMs, silentForMs, intervalMs }: OwnerSigns): number {
  return Math.max(sessionFreeForMs ?? 0, (silentForMs ?? 0) - LONGEST_INTERVALS * (intervalMs ?? 0));
}
