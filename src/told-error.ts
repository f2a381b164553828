/** What a front tells of an error, whatever was thrown: a kind, a code, and what happened and what to do. Pure. */
import { type Advice, advise } from "./advice.ts";
import { isOutage } from "./database/transient.ts";
import { type ErrorKind, EverbeatError } from "./errors.ts";

export interface ToldError {
  readonly kind: ErrorKind;
  readonly code: string;
  readonly message: string;
  readonly advice: readonly Advice[];
  /** Only for what should not have happened: it belongs in a bug report. */
  readonly stack?: string | undefined;
}

export function toldError(error: unknown): ToldError {
  if (error instanceof EverbeatError) {
    const { kind, code, message, advice } = error;
    return { kind, code, message, advice };
  }
  if (isOutage(error)) {
    const message = `The database was lost: ${(error as Error).message}. Try again when it is back.`;
    const advice = [advise("See whether it is.", "doctor", {})];
    return { kind: "unavailable", code: "DATABASE_LOST", message, advice };
  }
  if (isDatabaseRefusal(error)) {
    const message = `PostgreSQL refused (${error.code}): ${error.message}.`;
    const advice = [advise("See what is missing.", "doctor", {})];
    return { kind: kindOfSqlstate(error.code), code: "DATABASE_REFUSED", message, advice };
  }
  const message = `Something went wrong that should not have: ${error instanceof Error ? error.message : String(error)}`;
  const stack = error instanceof Error ? error.stack : undefined;
  return { kind: "internal", code: "INTERNAL", message, advice: [], stack };
}

/** The driver's errors from the server carry the server's severity. */
function isDatabaseRefusal(error: unknown): error is Error & { code: string } {
  return error instanceof Error && "severity" in error && typeof (error as { code?: unknown }).code === "string";
}

/** The first that fits; what is in none of them, such as a right that is missing or an error of a trigger, is refused. */
const KINDS_OF_SQLSTATES: readonly (readonly [RegExp, ErrorKind])[] = [
  // A lock that somebody holds, a deadlock, two transactions at once, a time limit.
  [/^(40|55P03|57014)/, "not-now"],
  // A constraint; a claim that does not hold, a key or an id that is taken.
  [/^(23|EB00[124579])/, "conflict"],
  // A call of ours in SQL that cannot be used as given.
  [/^EB00[36]/, "bad-request"],
];

function kindOfSqlstate(sqlstate: string): ErrorKind {
  return KINDS_OF_SQLSTATES.find(([pattern]) => pattern.test(sqlstate))?.[1] ?? "refused";
}
