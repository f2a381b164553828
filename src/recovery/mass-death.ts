/**
 * The guard against mass false death. When a large share of the machines would die in one window, it is more likely that
 * something between them and us is broken. Recovery then holds, for a bounded and remembered time. Pure.
 */
export interface MassDeathPolicy {
  /** More than this share of the machines… */
  readonly share: number;
  /** …and at least this many of them. */
  readonly atLeast: number;
  readonly holdMs: number;
}

export interface Fleet {
  /** Machines with a replica that is alive or would be declared dead now. */
  readonly machines: number;
  /** Machines whose every replica is dead or on the way there: silent, or without its session. */
  readonly dying: number;
  /** How long recovery has been held for this already; undefined while it is not. */
  readonly heldForMs: number | undefined;
  readonly isConfirmed: boolean;
}

export type HoldDecision = "act" | "hold" | "act-after-hold";

export function holdOn(fleet: Fleet, policy: MassDeathPolicy): HoldDecision {
  const isMass = fleet.dying >= policy.atLeast && fleet.dying > policy.share * fleet.machines;
  if (!isMass) return "act";
  if (fleet.isConfirmed) return "act-after-hold";
  return (fleet.heldForMs ?? 0) > policy.holdMs ? "act-after-hold" : "hold";
}

/** One replica that is not surely well, with what is known of its machine. */
export interface DoubtfulReplica {
  readonly machine: string;
  readonly machines: number;
  readonly isWell: boolean;
  /** Its machine has another replica that is. */
  readonly isMachineWell: boolean;
}

/** Machines whose replicas are all surely well need not be named. */
export function countDying(doubtful: readonly DoubtfulReplica[]): Pick<Fleet, "machines" | "dying"> {
  const alone = doubtful.filter(({ isMachineWell }) => !isMachineWell);
  // Those that die together are not silent to the same millisecond: once one is dead, those on the way count with it.
  const dying = new Set(alone.map(({ machine }) => machine));
  for (const { machine } of alone.filter(({ isWell }) => isWell)) dying.delete(machine);
  return { machines: doubtful[0]?.machines ?? 0, dying: dying.size };
}
