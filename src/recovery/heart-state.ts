/** How a replica's heart is doing at this moment, in one word: by the same limits as the reaper's verdict. Pure. */
import type { RecoverySettings } from "../config/recovery-options.ts";
import type { ReplicaRow } from "../sql/replicas.ts";
import { BLOCKED_FROM_MS, heartLimits } from "./limits.ts";
import { verdictOn } from "./verdict.ts";

/** `dying`: dead by these settings, and not declared yet. `unheard`: nobody listens, so nobody knows. */
export const HEART_STATES = [
  "fresh",
  "blocked",
  "session-lost",
  "stale",
  "dying",
  "unheard",
  "dead",
  "offline",
] as const;
export type HeartState = (typeof HEART_STATES)[number];

/** A replica, and how its heart is doing. */
export interface ReplicaWithHeart extends ReplicaRow {
  readonly heart: HeartState;
}

export function heartStateOf(replica: ReplicaRow, settings: RecoverySettings): HeartState {
  const { status, silentForMs, sessionFreeForMs, vitals } = replica;
  const isFree = sessionFreeForMs !== null || (replica.hasSession && !replica.holdsSession);
  if (status === "dead" || status === "offline") return status;
  if (silentForMs === null || replica.unheardSince !== null) return "unheard";
  const verdict = verdictOn(replica, heartLimits(replica, settings, "running"));
  if (verdict.kind === "dead") return "dying";
  if (isFree && settings.sessionGraceMs !== undefined) return "session-lost";
  if (verdict.kind === "stale") return "stale";
  return (vitals?.["blockedForMs"] ?? 0) >= BLOCKED_FROM_MS ? "blocked" : "fresh";
}
