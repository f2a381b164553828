/** What a silence means. Pure: the same evidence always gives the same verdict. */
import { WARN_AFTER_BEATS } from "../config/recovery-options.ts";

/** How long a heart has not been heard, counted only while signs could be written, and what its session lock says. */
export interface Evidence {
  readonly silentForMs: number;
  /** How long its session lock has been seen free; undefined where that proves nothing. */
  readonly sessionFreeForMs: number | undefined;
  /** How long the heart itself goes on without an acknowledged beat, and without its lock: nobody acts before that. */
  readonly promiseMs: number;
  readonly sessionPromiseMs: number;
  /** How often the heart beats. */
  readonly intervalMs: number;
}

export interface SilencePolicy {
  /** From here on a warning, and nothing else. */
  readonly staleAfterMs: number;
  /** The same settings have hearts beat this often. */
  readonly beatIntervalMs: number;
  /** Beyond this, dead. */
  readonly deadAfterMs: number;
  /** How long a free session lock is waited with; undefined where sessions are not to count. */
  readonly sessionGraceMs: number | undefined;
  /** What lies between a heart's own promise to stop and anybody else's right to act. */
  readonly marginMs: number;
  readonly sessionMarginMs: number;
}

export type Verdict =
  | { readonly kind: "fresh" }
  | { readonly kind: "stale"; readonly because: "silent" }
  | { readonly kind: "dead"; readonly because: "silent" | "session-lost" };

export const FRESH: Verdict = { kind: "fresh" };

export function verdictOn(evidence: Evidence, policy: SilencePolicy): Verdict {
  const { silentForMs, sessionFreeForMs, promiseMs, sessionPromiseMs } = evidence;
  if (policy.sessionGraceMs !== undefined && sessionFreeForMs !== undefined) {
    if (sessionFreeForMs > Math.max(policy.sessionGraceMs, sessionPromiseMs + policy.sessionMarginMs)) {
      return { kind: "dead", because: "session-lost" };
    }
  }
  if (silentForMs > Math.max(policy.deadAfterMs, promiseMs + policy.marginMs))
    return { kind: "dead", because: "silent" };
  if (silentForMs >= staleFromMs(evidence, policy)) return { kind: "stale", because: "silent" };
  return FRESH;
}

/** A heart may have other settings than whoever judges it. One that beats more seldom is not stale before three of its own beats are missing. */
function staleFromMs({ intervalMs }: Evidence, { staleAfterMs, beatIntervalMs }: SilencePolicy): number {
  return intervalMs <= beatIntervalMs ? staleAfterMs : Math.max(staleAfterMs, WARN_AFTER_BEATS * intervalMs);
}

/** Below this silence, and with its session, a heart is fresh by each of these policies: nobody needs to be asked about it. */
export function doubtFromMs(policies: readonly SilencePolicy[]): number {
  return Math.min(...policies.flatMap(({ staleAfterMs, deadAfterMs }) => [staleAfterMs, deadAfterMs]));
}
