/**
 * The guard against mass false death. When a large share of those who fail independently of each other (machines, owners) would die in one window,
 * it is more likely that something between them and us is broken. Recovery then holds, for a bounded and remembered time. Pure.
 */
export interface MassDeathPolicy {
  /** More than this share of the groups… */
  readonly share: number;
  /** …and at least this many of them. */
  readonly atLeast: number;
  readonly holdMs: number;
}

export interface Fleet {
  /** Groups with somebody who is alive or would be declared dead now. Of hearts, a machine is a group. */
  readonly groups: number;
  /** Those of them in which everybody is dead or on the way there: silent, or without a session. */
  readonly dying: number;
  /** How long recovery has been held for this already; undefined while it is not. */
  readonly heldForMs: number | undefined;
  readonly isConfirmed: boolean;
}

export type HoldDecision = "act" | "hold" | "act-after-hold";

export function holdOn(fleet: Fleet, policy: MassDeathPolicy): HoldDecision {
  const isMass = fleet.dying >= policy.atLeast && fleet.dying > policy.share * fleet.groups;
  if (!isMass) return "act";
  if (fleet.isConfirmed) return "act-after-hold";
  return (fleet.heldForMs ?? 0) > policy.holdMs ? "act-after-hold" : "hold";
}

/** One who is not surely well, with what is known of its group. */
export interface DoubtfulMember {
  readonly group: string;
  readonly groups: number;
  readonly isWell: boolean;
  /** Its group has somebody else who is. */
  readonly isGroupWell: boolean;
}

/** Groups in which everybody is surely well need not be named. */
export function countDying(doubtful: readonly DoubtfulMember[]): Pick<Fleet, "groups" | "dying"> {
  const alone = doubtful.filter(({ isGroupWell }) => !isGroupWell);
  // Those that die together are not silent to the same millisecond: once one is dead, those on the way count with it.
  const dying = new Set(alone.map(({ group }) => group));
  for (const { group } of alone.filter(({ isWell }) => isWell)) dying.delete(group);
  return { groups: doubtful[0]?.groups ?? 0, dying: dying.size };
}
