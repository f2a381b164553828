/** What can be wrong with the database, as the caller is told it. */
import { type Advice, advise } from "../advice.ts";
import { EverbeatError } from "../errors.ts";

const BRING_UP_TO_DATE = advise("Bring the schema up to date.", "schema.migrate", {});

export class ClosedError extends EverbeatError {
  readonly code = "CLOSED";
  readonly kind = "unavailable";
  constructor() {
    super("This Everbeat has been closed. Open another one, or close this one later.");
  }
}

export class DatabaseUnavailableError extends EverbeatError {
  readonly code = "DATABASE_UNAVAILABLE";
  readonly kind = "unavailable";
  constructor(attempts: readonly string[], options?: { cause?: unknown }) {
    super(
      `No database could be reached:\n${attempts.map((attempt) => `  - ${attempt}`).join("\n")}\n` +
        "Check that PostgreSQL runs and that the address, the user and the password are right.",
      options,
    );
  }

  override get advice(): readonly Advice[] {
    return [advise("See what can be seen from here.", "doctor", {})];
  }
}

export class DatabaseFullError extends EverbeatError {
  readonly code = "DATABASE_FULL";
  readonly kind = "unavailable";
  constructor(detail: string, options?: { cause?: unknown }) {
    super(
      `The database has no room for it: ${detail}. Nothing of this call was written. ` +
        "Make room on the server's disk, then call again.",
      options,
    );
  }
}

export class NoReplyError extends EverbeatError {
  readonly code = "NO_REPLY";
  readonly kind = "unavailable";
  constructor(readonly waitedMs: number) {
    super(
      `The database has not answered a statement within ${waitedMs} ms, and its connection was closed. ` +
        "Something between here and the database may swallow packets, or a lock holds the statement up; if it is only slow, raise `replyTimeout`.",
    );
  }
}

export class TimeNotReadableError extends EverbeatError {
  readonly code = "TIME_NOT_READABLE";
  readonly kind = "not-now";
  constructor(text: string) {
    super(
      `The database wrote a time as ${JSON.stringify(text)}: somebody has changed the DateStyle of this session since it was begun. ` +
        "Call again, which looks at the session anew. What the statement was to write may have been written.",
    );
  }
}

export class PoolExhaustedError extends EverbeatError {
  readonly code = "POOL_EXHAUSTED";
  readonly kind = "unavailable";
  constructor(
    readonly connections: number,
    readonly waitedMs: number,
  ) {
    super(
      `All ${connections} connections of this process to the database have been in use for ${waitedMs} ms. ` +
        "Something holds them up, as a lock does; if there is only much to do, raise `poolSize`.",
    );
  }
}

export class TransactionRolledBackError extends EverbeatError {
  readonly code = "TRANSACTION_ROLLED_BACK";
  readonly kind = "bad-request";
  constructor(options?: { cause?: unknown }) {
    super(
      "The transaction was rolled back, and nothing of it was written: a statement in it had failed, and its error was caught. " +
        "Let such an error leave the callback, or set a savepoint before a statement that may fail and roll back to it.",
      options,
    );
  }
}

export class TransactionEndedError extends EverbeatError {
  readonly code = "TRANSACTION_ENDED";
  readonly kind = "bad-request";
  constructor() {
    super(
      "This transaction has ended: await everything inside the callback. The statement was not run. " +
        "A `forEach` with an async function awaits nothing: use `for … of` with `await`, and do not keep `tx` for later.",
    );
  }
}

/** Never migrated: most often another schema or another database was meant. */
export class SchemaMissingError extends EverbeatError {
  readonly code = "SCHEMA_MISSING";
  readonly kind = "refused";
  constructor(
    readonly schema: string,
    where: { readonly database: string; readonly hosts: string },
  ) {
    super(
      `There is no Everbeat schema "${schema}" in the database "${where.database}" on ${where.hosts}. ` +
        "Check the schema and the address of the database (--schema and --database), or run `everbeat migrate` with the same ones to create it.",
    );
  }

  override get advice(): readonly Advice[] {
    return [advise("Create the schema, if this is the right place.", "schema.migrate", {})];
  }
}

export class SchemaTooOldError extends EverbeatError {
  readonly code = "SCHEMA_TOO_OLD";
  readonly kind = "refused";
  constructor(
    readonly schema: string,
    readonly found: number,
    readonly needed: number,
  ) {
    super(
      `The schema "${schema}" is at version ${found} and this version of Everbeat needs ${needed}. ` +
        "Run `everbeat migrate` with a role that may change the schema, then start again.",
    );
  }

  override get advice(): readonly Advice[] {
    return [BRING_UP_TO_DATE];
  }
}

export class RoutinesTooOldError extends EverbeatError {
  readonly code = "ROUTINES_TOO_OLD";
  readonly kind = "refused";
  constructor(
    readonly schema: string,
    readonly count: number,
  ) {
    const what = count === 1 ? "One function, view or trigger" : `${count} functions, views and triggers`;
    super(
      `${what} of the schema "${schema}" ${count === 1 ? "is" : "are"} older than this version of Everbeat needs. ` +
        "Run `everbeat migrate` with a role that may change the schema, then start again.",
    );
  }

  override get advice(): readonly Advice[] {
    return [BRING_UP_TO_DATE];
  }
}

/** To migrate is what helps. */
export function isMendedByMigrating(error: unknown): error is Error {
  return [SchemaMissingError, SchemaTooOldError, RoutinesTooOldError].some((kind) => error instanceof kind);
}

export class SchemaTooNewError extends EverbeatError {
  readonly code = "SCHEMA_TOO_NEW";
  readonly kind = "refused";
  constructor(
    readonly schema: string,
    readonly found: number,
    readonly known: number,
  ) {
    super(
      `The schema "${schema}" is at version ${found}, which this version of Everbeat (it knows up to ${known}) does not understand. ` +
        "Start the newer version that migrated it.",
    );
  }
}

export class MigrationChangedError extends EverbeatError {
  readonly code = "MIGRATION_CHANGED";
  readonly kind = "refused";
  constructor(name: string) {
    super(
      `Migration ${name} was applied with another text than this version of Everbeat has. ` +
        "Migrations never change once applied: this database was migrated by another build.",
    );
  }
}

export class UnsupportedServerError extends EverbeatError {
  readonly code = "UNSUPPORTED_SERVER";
  readonly kind = "refused";
  constructor(version: string) {
    super(`PostgreSQL ${version} is too old: Everbeat needs 14 or newer.`);
  }
}
