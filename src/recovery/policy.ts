/** The thresholds of a verdict, as settings have them. Pure. */
import { beatIntervalMs, type RecoverySettings } from "../config/recovery-options.ts";
import type { SilencePolicy } from "./verdict.ts";

export function policyOf(settings: RecoverySettings, role: "claimed" | "running"): SilencePolicy {
  const { staleAfterMs, sessionGraceMs } = settings;
  const deadAfterMs = role === "claimed" ? settings.claimedDeadAfterMs : settings.runningDeadAfterMs;
  return {
    staleAfterMs,
    beatIntervalMs: beatIntervalMs(settings),
    deadAfterMs,
    sessionGraceMs,
    marginMs: deadAfterMs / 10,
    sessionMarginMs: (sessionGraceMs ?? 0) / 5,
  };
}
