/** What the error on record of an attempt says of the death that ended it, as far as it can be understood: see `crashError`. Pure. */
import { type DeathRecord, readDeath } from "../task/death.ts";

/** How many other tasks may have caused a death. Those that were not there, or that are no suspects, are left out. */
export interface OtherSuspects {
  /** In the same runner, at the same time… */
  readonly inRunner?: number | undefined;
  /** …and earlier: they may have left something behind. */
  readonly before?: number | undefined;
  /** In the same worker. Of a runner: those elsewhere in its worker, within the same memory limit. */
  readonly inWorker?: number | undefined;
  /** Of a replica: those in all workers within the same memory limit, also in its own. */
  readonly withinLimit?: number | undefined;
  /** Besides, processes that are none of ours, within the same memory limit: see strangers.ts. */
  readonly hasStrangers?: boolean | undefined;
}

export interface DeathInError extends DeathRecord, OtherSuspects {
  readonly sentence?: string | undefined;
  /** Where it was a runner that died: its worker is well. */
  readonly runner?: { readonly kind: "thread" | "process"; readonly what: string } | undefined;
}

export function readDeathIn(error: unknown): DeathInError {
  const { sentence, inRunner, before, inWorker, withinLimit, hasStrangers, runner } = fieldsOf(error);
  return {
    ...readDeath(error),
    sentence: typeof sentence === "string" ? sentence : undefined,
    ...{ inRunner: count(inRunner), before: count(before), inWorker: count(inWorker), withinLimit: count(withinLimit) },
    hasStrangers: hasStrangers === true || undefined,
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
