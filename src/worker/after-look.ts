/** What the claimer does after a look. Pure. */
import type { Search } from "./search-cursors.ts";

export type Phase = "waking" | "looking" | "settling" | "asleep";

export interface LookMade {
  readonly search: Search;
  readonly startedMs: number;
  readonly asked: number;
  /** The look asked for no more tasks than may follow those that have ended. */
  readonly isAfterEnds: boolean;
  /** The claimer was asleep, and looks only for what may follow what has ended. */
  readonly isFollowing: boolean;
  readonly isSettling: boolean;
  /** There was so much in the way that it has not seen everything. */
  readonly hasMore: boolean;
  /** For the reason that it has met something that must not wait for a slot. */
  readonly hasMet: boolean;
}

/** From `phase`, as it is by the time of the reply: whoever was told in the meantime is looking again already. */
export function phaseAfter(phase: Phase, look: LookMade, claimed: readonly { exclusiveKey: string | null }[]): Phase {
  const isFull = foundAsMany(claimed, look);
  if (look.isFollowing) return phase === "asleep" && (isFull || look.hasMore) ? "waking" : phase;
  if (look.isSettling && phase !== "settling") return phase;
  if (look.hasMore) return "waking";
  if (isFull) return "looking";
  return look.isSettling && claimed.length === 0 ? "asleep" : "settling";
}

/** Then there may be more. Those that only follow, each behind its key, say nothing of others. */
function foundAsMany(claimed: readonly { exclusiveKey: string | null }[], look: LookMade): boolean {
  const onlyFollow = look.isAfterEnds && claimed.every(({ exclusiveKey }) => exclusiveKey !== null);
  return claimed.length >= look.asked && !onlyFollow;
}

const HELD_UP_MS = { first: 50, most: 1_000 };

/** How long until the next look, after so many in a row that have passed something by that was locked. Nobody tells when it is free. */
export function pauseWhileHeldUpMs(looks: number): number {
  return Math.min(HELD_UP_MS.first * 2 ** (looks - 1), HELD_UP_MS.most);
}
