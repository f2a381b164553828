/** What a silence means, whoever is silent. Pure: the same signs and limits always give the same verdict. */
import type { VerdictReason } from "../task/death.ts";
import type { Limits } from "./limits.ts";

/** How long there has been no sign of life, by the database's clock and counted only while signs could be written. */
export interface Silence {
  /** Null: nobody has ever listened. */
  readonly silentForMs: number | null;
  /** How long its session has been seen gone; null where it is there, or where its end would prove nothing. */
  readonly sessionFreeForMs?: number | null;
}

export interface DeadVerdict {
  readonly kind: "dead";
  readonly because: VerdictReason;
  /** The limit that was passed. Whoever acts looks at the evidence again in the moment of writing, and acts only beyond this. */
  readonly beyondMs: number;
}

export type Verdict = { readonly kind: "fresh" } | { readonly kind: "stale" } | DeadVerdict;

export const FRESH: Verdict = { kind: "fresh" };

export function verdictOn({ silentForMs, sessionFreeForMs }: Silence, limits: Limits): Verdict {
  const goneBeyondMs = passed(sessionFreeForMs, limits.sessionGoneAfterMs);
  if (goneBeyondMs !== undefined) return { kind: "dead", because: "session-lost", beyondMs: goneBeyondMs };
  const silentBeyondMs = passed(silentForMs, limits.deadAfterMs);
  if (silentBeyondMs !== undefined) return { kind: "dead", because: "silent", beyondMs: silentBeyondMs };
  if (limits.staleFromMs !== undefined && (silentForMs ?? 0) >= limits.staleFromMs) return { kind: "stale" };
  return FRESH;
}

/** The limit, if there is one and it was passed. */
function passed(ms: number | null | undefined, limitMs: number | undefined): number | undefined {
  return ms != null && limitMs !== undefined && ms > limitMs ? limitMs : undefined;
}
