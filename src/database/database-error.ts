/** The database's own error, which other libraries wrap in theirs. */
export interface DatabaseError {
  readonly code: string;
  readonly message: string;
  readonly detail: string | undefined;
}

const SQLSTATE = /^[0-9A-Z]{5}$/;
const MAX_WRAPS = 5;

/** The SQLSTATE, message and detail of what the database said, however deep it is wrapped; undefined where it said nothing. */
export function databaseError(error: unknown): DatabaseError | undefined {
  let current = error as { code?: unknown; message?: unknown; detail?: unknown; cause?: unknown } | null | undefined;
  for (let wraps = 0; current && wraps <= MAX_WRAPS; wraps++) {
    const { code, message, detail } = current;
    if (typeof code === "string" && SQLSTATE.test(code)) {
      return { code, message: String(message), detail: typeof detail === "string" ? detail : undefined };
    }
    current = current.cause as typeof current;
  }
  return undefined;
}

/** The server answered that it does not let us: a right or a password is wrong (28, 42501), or something of ours is not there (42). */
export function isNotAllowed(error: unknown): boolean {
  return /^(28|42)/.test(databaseError(error)?.code ?? "");
}
