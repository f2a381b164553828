/** What a sweep makes of a heart that it doubts: its verdicts, the evidence that they need, and the death to put on record. Pure. */
import type { RecoverySettings } from "../config/recovery-options.ts";
import type { DoubtfulHeart } from "../sql/hearts.ts";
import type { AbsentOwner } from "../sql/recovery.ts";
import { readDeath } from "./death-record.ts";
import { evidenceOf } from "./evidence-of.ts";
import type { DoubtfulReplica } from "./mass-death.ts";
import { policyOf } from "./policy.ts";
import type { Told } from "./post-mortems.ts";
import type { Death } from "./recovery-action.ts";
import { type SilencePolicy, type Verdict, verdictOn } from "./verdict.ts";

export interface Judged {
  readonly heart: DoubtfulHeart;
  readonly running: Verdict;
  readonly claimed: Verdict;
}

export function doubtOf({ heart, running }: Judged): DoubtfulReplica {
  const { machineId, replicaId, machines, isMachineWell, sessionFreeForMs } = heart;
  const isWell = running.kind === "fresh" && sessionFreeForMs === null;
  return { machine: machineId ?? replicaId, machines, isWell, isMachineWell };
}

export function judge(heart: DoubtfulHeart, settings: RecoverySettings): Judged {
  const evidence = evidenceOf(heart);
  return {
    heart,
    running: verdictOn(evidence, policyOf(settings, "running")),
    claimed: verdictOn(evidence, policyOf(settings, "claimed")),
  };
}

/** The least evidence that the verdict needs: looked at again in the moment of writing. */
export function limitOf(heart: DoubtfulHeart, because: "silent" | "session-lost", policy: SilencePolicy): number {
  if (because === "silent") return Math.max(policy.deadAfterMs, heart.promiseMs + policy.marginMs);
  return Math.max(policy.sessionGraceMs ?? 0, heart.sessionPromiseMs + policy.sessionMarginMs);
}

export function deathOf(heart: DoubtfulHeart, because: "silent" | "session-lost"): Death {
  const { replicaId, machineId, hostname, silentForMs, vitals, status } = heart;
  return {
    replicaId,
    machineId: machineId ?? undefined,
    hostname,
    because,
    silentForMs: Math.round(silentForMs),
    vitals,
    ...(status === "draining" ? { wasDraining: true } : {}),
  };
}

/** As it was put on record when it was declared dead, and what was found out since. */
export function deathOfAbsent(owner: AbsentOwner, told: Told | undefined): Death {
  const { replicaId, machineId, hostname, status, cameBack } = owner;
  const death = readDeath(owner.death);
  return {
    ...death,
    replicaId,
    machineId: machineId ?? undefined,
    hostname: hostname ?? undefined,
    because: status === "dead" ? (death.because ?? "silent") : status,
    silentForMs: death.silentForMs,
    vitals: death.vitals,
    ...(cameBack ? { cameBack } : {}),
    ...(told ? { probableCause: told.cause, sentence: told.sentence } : {}),
  };
}
