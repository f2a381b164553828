/** Which errors pass by themselves: worth another try with the same statement, after a while. */
const TRANSIENT_SQLSTATES = new Set([
  "40001", // serialization failure
  "40P01", // deadlock detected
  "53300", // too many connections
  "57P01", // admin shutdown, and pg_terminate_backend
  "57P02", // crash shutdown
  "57P03", // cannot connect now: starting up or shutting down
  "57P05", // idle session timeout
  "25P03", // idle in a transaction for too long: the process was stopped, see FRAME_IDLE_MS
  "25006", // read only: this server is not the primary any more
  "55P03", // lock not available
]);

const TRANSIENT_SYSTEM_CODES = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "EPIPE",
  "ETIMEDOUT",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EAI_AGAIN",
  "DATABASE_UNAVAILABLE",
  "NO_REPLY",
  "POOL_EXHAUSTED",
]);

export function isTransient(error: unknown): boolean {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown };
  if (typeof code === "string") {
    return code.startsWith("08") || TRANSIENT_SQLSTATES.has(code) || TRANSIENT_SYSTEM_CODES.has(code);
  }
  // `pg` reports a connection that ended under a query without a code. PgBouncer's own errors carry 08P01.
  return (
    typeof message === "string" &&
    /connection (terminated|ended)|terminating connection|timeout expired|timeout exceeded|not queryable|server closed|server_login_retry|query_wait_timeout/i.test(
      message,
    )
  );
}

/** The server itself does not answer, or says that it is not ready: not merely our connection to it. */
export function isServerDown(error: unknown): boolean {
  const { code, cause } = (error ?? {}) as { code?: unknown; cause?: unknown };
  if (code === "ECONNREFUSED" || code === "57P03" || code === "57P02") return true;
  return cause !== undefined && isServerDown(cause);
}

/** Something holds up this very statement, and others may go through all the same. */
export function isHeldUp(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return code === "55P03" || code === "40P01" || code === "NO_REPLY";
}

/** Somebody else has locked a row that the statement needs. The statement waited for the lock until its time limit, and gave up. */
export function isLocked(error: unknown): boolean {
  return (error as { code?: unknown } | undefined)?.code === "55P03";
}

/**
 * Whether a connection is given up after this error. It is kept where a statement waited for a lock in vain: the server is well, and it has let go
 * of what that statement had locked before the next one on the same connection begins.
 */
export function breaksConnection(error: unknown): boolean {
  return isTransient(error) && !isLocked(error);
}

/** By somebody, or by a time limit of the server. */
export function isCancelled(error: unknown): boolean {
  return (error as { code?: unknown } | undefined)?.code === "57014";
}

/** The role that we connected with may not do this. */
export function isRightMissing(error: unknown): boolean {
  return (error as { code?: unknown } | undefined)?.code === "42501";
}

/** The session is not in read committed, in which our statements count (see require_read_committed). */
export function isRefusedForIsolation(error: unknown): boolean {
  return (error as { code?: unknown } | undefined)?.code === "EB008";
}

/** The connection or the server is away, so that no statement can succeed now. A lock that holds up one statement is another matter. */
export function isAway(error: unknown): boolean {
  return isTransient(error) && !isHeldUp(error);
}

/**
 * Whether the database can do nothing for us now: it is away, does not answer, or lacks disk, memory or files (53, 58). Everything else is about this
 * statement, since others may go through at the same time.
 */
export function isOutage(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return isAway(error) || code === "NO_REPLY" || (typeof code === "string" && /^(53|58)/.test(code));
}

/**
 * Whether the same statement with other values might have been taken: they do not fit their types (22), break a constraint (23, 44), make a query
 * give more rows than it may (21), are nested too deeply (54001), a trigger raised an error of its own (P0, 09, 27, 38, 39, or a class that
 * PostgreSQL does not have), one of several claims is on another task (EB004, see end_claims), a task has no record (EB005), or what is stored is
 * damaged (XX001, XX002). Other limits (54) are the server's own: its notifications are full, or its transaction ids are used up. The same lists are
 * in is_about_rows.
 */
export function isAboutTheValues(error: unknown): boolean {
  const { code, severity } = (error ?? {}) as { code?: unknown; severity?: unknown };
  if (error instanceof RangeError) return true;
  if (typeof code !== "string") return false;
  return ABOUT_VALUES.test(code) || (severity !== undefined && !CLASSES_OF_POSTGRESQL.test(code));
}

const ABOUT_VALUES = /^(09|21|22|23|27|38|39|44|54001|P0|EB004|EB005|XX001|XX002)/;
const CLASSES_OF_POSTGRESQL =
  /^(0[0-3ABFLPZ]|0[89]|10|2[0-8BDF]|34|38|39|3[BDF]|40|42|44|53|54|55|57|58|72|F0|HV|P0|XX|EB)/;

/** Whether some of the rows may be done without the others: those that nobody has locked, and whose values can be taken. */
export function isAboutSomeRows(error: unknown): boolean {
  return isAboutTheValues(error) || isLocked(error);
}
