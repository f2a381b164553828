/** When a heart must assume that others may act on its silence. Pure. */
export interface HeartContact {
  /** Since the last acknowledged beat was sent. */
  readonly unheardForMs: number;
  /** Since the session with its lock ended; undefined while it is held, and where there is none to hold. */
  readonly sessionGoneForMs: number | undefined;
  /** Since another session was last seen to stand in for its own; undefined where none does, and once it has had its own. */
  readonly standInUnseenForMs: number | undefined;
  /** Reconnecting showed that the server itself is down: then its next epoch protects the session, but not the beats. */
  readonly isServerDown: boolean;
}

export interface FenceAfter {
  readonly unheardMs: number;
  readonly sessionGoneMs: number;
  readonly standInUnseenMs: number;
}

export type FenceReason = "unheard" | "session-gone";

export function fenceOn(contact: HeartContact, after: FenceAfter): FenceReason | undefined {
  if (contact.unheardForMs >= after.unheardMs) return "unheard";
  if (contact.isServerDown) return undefined;
  const { sessionGoneForMs = -1, standInUnseenForMs = -1 } = contact;
  const isGone = sessionGoneForMs >= after.sessionGoneMs || standInUnseenForMs >= after.standInUnseenMs;
  return isGone ? "session-gone" : undefined;
}
