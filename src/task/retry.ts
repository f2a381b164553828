/** What follows a failed attempt. Pure: the failure, the policy and a random number in, a decision out. */
export interface RetryPolicy {
  /** How many attempts may fail before the task does. */
  readonly attempts: number;
  readonly backoff: "fixed" | "exponential" | readonly number[];
  /** The first delay; with "fixed", every delay. */
  readonly delayMs: number;
  /** Where exponential growth ends. */
  readonly maxDelayMs: number;
  /** The share of each delay that is random: 0 none, 1 all of it. */
  readonly jitter: number;
}

export const DEFAULT_RETRY: RetryPolicy = Object.freeze({
  // One attempt, as with a crash: code that ran may have had effects, so nothing is repeated unless someone says so.
  attempts: 1,
  backoff: "exponential",
  delayMs: 1_000,
  maxDelayMs: 3_600_000,
  jitter: 0.2,
});

export type AfterFailure =
  | { readonly kind: "fail"; readonly failures: number; readonly because: "attempts-spent" | "not-worth-retrying" }
  | { readonly kind: "retry"; readonly failures: number; readonly delayMs: number };

export function afterFailure(
  failure: { failures: number; isWorthRetrying: boolean; random: number },
  policy: RetryPolicy,
): AfterFailure {
  const failures = failure.failures + 1;
  if (!failure.isWorthRetrying) return { kind: "fail", failures, because: "not-worth-retrying" };
  if (failures >= policy.attempts) return { kind: "fail", failures, because: "attempts-spent" };
  return { kind: "retry", failures, delayMs: backoffMs(failures, policy, failure.random) };
}

/** The delay after this many failures. Jitter only ever shortens it, so maxDelay is a promise. */
export function backoffMs(failures: number, policy: RetryPolicy, random: number): number {
  return Math.round(fullDelayMs(failures, policy) * (1 - policy.jitter * random));
}

function fullDelayMs(failures: number, policy: RetryPolicy): number {
  if (policy.backoff === "fixed") return policy.delayMs;
  if (policy.backoff === "exponential")
    return Math.min(policy.delayMs * 2 ** Math.min(failures - 1, 40), policy.maxDelayMs);
  return policy.backoff[Math.min(failures, policy.backoff.length) - 1] ?? policy.delayMs;
}
