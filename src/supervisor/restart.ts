/** Whether and when a child that ended is started again, and in what order children are replaced. Pure. */

export interface RestartPolicy {
  readonly firstPauseMs: number;
  readonly longestPauseMs: number;
  /** A child that has been ready for this long was well: what went before it is forgotten. */
  readonly healthyAfterMs: number;
  /** So many ends in a row, with no time of health between them, are a crash loop. */
  readonly loopAfter: number;
}

export const DEFAULT_RESTART: RestartPolicy = {
  firstPauseMs: 100,
  longestPauseMs: 30_000,
  healthyAfterMs: 10_000,
  loopAfter: 6,
};

export interface Life {
  /** How many ended before it in the same place, with no time of health between them. */
  readonly exitsInARow: number;
  /** From when it was ready until its end; undefined: it never was. */
  readonly readyForMs: number | undefined;
}

export type RestartDecision =
  | { readonly kind: "restart"; readonly exitsInARow: number; readonly pauseMs: number }
  | { readonly kind: "crash-loop"; readonly exitsInARow: number };

/** `random`, from 0 to 1: children that ended together must not all come back in step. */
export function restartDecision(life: Life, policy: RestartPolicy, random: number): RestartDecision {
  const wasWell = life.readyForMs !== undefined && life.readyForMs >= policy.healthyAfterMs;
  const exitsInARow = wasWell ? 1 : life.exitsInARow + 1;
  if (exitsInARow >= policy.loopAfter) return { kind: "crash-loop", exitsInARow };
  const fullMs = Math.min(policy.firstPauseMs * 2 ** (exitsInARow - 1), policy.longestPauseMs);
  return { kind: "restart", exitsInARow, pauseMs: fullMs * (0.75 + random / 4) };
}

export interface RolledPlace {
  readonly child: number;
  /** Undefined where nobody is: in a crash loop, or between two tries. */
  readonly startedAtMs: number | undefined;
}

/** Empty places first, where a new version that does not start costs nobody; then the oldest child first. */
export function rollOrder(places: readonly RolledPlace[]): number[] {
  const age = ({ startedAtMs }: RolledPlace) => startedAtMs ?? Number.NEGATIVE_INFINITY;
  return [...places].sort((a, b) => order(age(a), age(b)) || a.child - b.child).map(({ child }) => child);
}

function order(a: number, b: number): number {
  return a < b ? -1 : Number(a > b);
}
