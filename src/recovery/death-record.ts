/** A death on record, as far as it can be understood: another version may have written it, or somebody by hand. Pure. */
import { storableText } from "../task/error-record.ts";
import { CAUSES, type Death } from "./recovery-action.ts";

export type DeathRecord = Partial<Omit<Death, "replicaId" | "machineId" | "hostname" | "runner">>;

export function readDeath(value: unknown): DeathRecord {
  const { because, silentForMs, vitals, wasDraining, isCharged, exitCode, signal, stack } = (
    typeof value === "object" && value !== null ? value : {}
  ) as Record<string, unknown>;
  return {
    ...(typeof because === "string" && Object.hasOwn(CAUSES, because) ? { because: because as Death["because"] } : {}),
    ...(Number.isFinite(silentForMs) ? { silentForMs: silentForMs as number } : {}),
    ...(typeof vitals === "object" ? { vitals } : {}),
    ...(typeof wasDraining === "boolean" ? { wasDraining } : {}),
    ...(typeof isCharged === "boolean" ? { isCharged } : {}),
    ...(Number.isInteger(exitCode) ? { exitCode: exitCode as number } : {}),
    ...(typeof signal === "string" ? { signal: storableText(signal) } : {}),
    ...(typeof stack === "string" ? { stack: storableText(stack) } : {}),
  };
}
