/** What the error on record of an attempt says of the death that ended it, as far as it can be understood: see `crashError`. Pure. */
import { type DeathRecord, readDeath } from "../task/death.ts";

export interface DeathInError extends DeathRecord {
  readonly sentence?: string | undefined;
  /** How many other tasks ran there, and how many a runner had run before. */
  readonly beside?: number | undefined;
  readonly before?: number | undefined;
  /** Where it was a runner that died: its worker is well. */
  readonly runner?: { readonly kind: "thread" | "process"; readonly what: string } | undefined;
}

export function readDeathIn(error: unknown): DeathInError {
  const { sentence, beside, before, runner } = fieldsOf(error);
  return {
    ...readDeath(error),
    sentence: typeof sentence === "string" ? sentence : undefined,
    ...{ beside: count(beside), before: count(before) },
    runner: typeof runner === "object" && runner !== null ? runnerIn(fieldsOf(runner)) : undefined,
  };
}

function runnerIn({ kind, what }: Readonly<Record<string, unknown>>): NonNullable<DeathInError["runner"]> {
  return { kind: kind === "thread" ? "thread" : "process", what: typeof what === "string" ? what : "its runner ended" };
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function count(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : undefined;
}
