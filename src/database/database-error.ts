/** The database's own error, which other libraries wrap in theirs. */
export interface DatabaseError {
  readonly code: string;
  readonly detail: string | undefined;
}

const SQLSTATE = /^[0-9A-Z]{5}$/;
const MAX_WRAPS = 5;

/** The SQLSTATE and detail of what the database said, however deep it is wrapped; undefined where it said nothing. */
export function databaseError(error: unknown): DatabaseError | undefined {
  let current = error as { code?: unknown; detail?: unknown; cause?: unknown } | null | undefined;
  for (let wraps = 0; current && wraps <= MAX_WRAPS; wraps++) {
    const { code, detail } = current;
    if (typeof code === "string" && SQLSTATE.test(code)) {
      return { code, detail: typeof detail === "string" ? detail : undefined };
    }
    current = current.cause as typeof current;
  }
  return undefined;
}
