/** Whether an owner's tasks may be recovered by hand, and what is on record about the owner then. Pure. */
import type { RecoverySettings } from "../config/recovery-options.ts";
import type { OwnerSigns } from "../sql/stale-tasks.ts";
import { policyOf } from "./policy.ts";
import { verdictOn } from "./verdict.ts";

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
  state: "claimed" | "running",
  settings: RecoverySettings,
  afterMs: number | undefined,
): OwnerByHand {
  const { ownerStatus, silentForMs, hasSession, holdsSession } = owner;
  const isHere = ownerStatus === "online" || ownerStatus === "draining";
  if (!isHere || owner.promiseMs === null) return { isStale: true, isDead: true };
  // Nobody has ever listened, so nobody knows.
  if (silentForMs === null) return { isStale: false, isDead: false };
  const { promiseMs } = owner;
  const sessionPromiseMs = owner.sessionPromiseMs ?? 0;
  const evidence = { silentForMs, sessionFreeForMs: owner.sessionFreeForMs ?? undefined, promiseMs, sessionPromiseMs };
  const isDead = verdictOn(evidence, policyOf(settings, "running")).kind === "dead";
  if (afterMs === undefined)
    return { isStale: isDead || verdictOn(evidence, policyOf(settings, state)).kind === "dead", isDead };
  const hasEnded = hasSession && !holdsSession;
  const hasStopped = silentForMs > promiseMs || (hasEnded && silentForMs > sessionPromiseMs);
  return { isStale: silentForMs > afterMs && hasStopped, isDead: isDead || hasEnded };
}
