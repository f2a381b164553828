/**
 * Whether runners of a kind may be started. Pure: each step takes a state and gives the next.
 *
 *   closed ── failures in a row ──▶ open ── a pause ──▶ half-open ── it starts ──▶ closed
 *                                    ▲                     │
 *                                    └── twice the pause ──┘ it fails again
 */
export interface BreakerRule {
  /** So many failures in a row open it. */
  readonly failures: number;
  readonly firstPauseMs: number;
  readonly maxPauseMs: number;
}

export type Breaker =
  | { readonly kind: "closed"; readonly failures: number }
  | { readonly kind: "open"; readonly failures: number; readonly pauseMs: number; readonly sinceMs: number }
  /** One is tried; nobody else is let in meanwhile. */
  | { readonly kind: "half-open"; readonly failures: number; readonly pauseMs: number };

export const CLOSED: Breaker = { kind: "closed", failures: 0 };

export function afterFailedStart(breaker: Breaker, rule: BreakerRule, nowMs: number): Breaker {
  const failures = breaker.failures + 1;
  if (breaker.kind === "open") return { ...breaker, failures };
  if (breaker.kind === "half-open") {
    return { kind: "open", failures, pauseMs: Math.min(breaker.pauseMs * 2, rule.maxPauseMs), sinceMs: nowMs };
  }
  if (failures < rule.failures) return { kind: "closed", failures };
  return { kind: "open", failures, pauseMs: rule.firstPauseMs, sinceMs: nowMs };
}

/** Half-open once the pause is over; else as it is. */
export function afterPause(breaker: Breaker, nowMs: number): Breaker {
  if (breaker.kind !== "open" || nowMs - breaker.sinceMs < breaker.pauseMs) return breaker;
  return { kind: "half-open", failures: breaker.failures, pauseMs: breaker.pauseMs };
}
