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

/** Somebody has locked what it needs, and it was not waited for any longer. */
export function isLocked(error: unknown): boolean {
  return (error as { code?: unknown } | undefined)?.code === "55P03";
}

/**
 * Whether a connection is given up after this. Not where a lock was not waited for: the server is well, and the next statement on the same
 * connection comes after it has let go of what the failed one had locked.
 */
export function breaksConnection(error: unknown): boolean {
  return isTransient(error) && !isLocked(error);
}

/** By somebody, or by a time limit of the server. */
export function isCancelled(error: unknown): boolean {
  return (error as { code?: unknown } | undefined)?.code === "57014";
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
 * Whether the same statement with other values might have been taken: they do not fit their types (22), break a constraint (23), are too
 * large (54), a trigger raised an error of its own (P0), one of several claims is on another task (EB004, see end_claims), a task has no
 * record (EB005), or what is stored is damaged (XX001).
 */
export function isAboutTheValues(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return error instanceof RangeError || (typeof code === "string" && /^(21|22|23|54|P0|EB004|EB005|XX001)/.test(code));
}

/** Whether some of the rows may be done without the others: those that nobody has locked, and whose values can be taken. */
export function isAboutSomeRows(error: unknown): boolean {
  return isAboutTheValues(error) || isLocked(error);
}
