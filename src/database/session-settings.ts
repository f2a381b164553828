/**
 * Settings that an administrator may have changed for a role or a database, and that our own statements must not be run with:
 * an isolation level in which a statement counts in an old snapshot, and time limits that end a statement before it can be done.
 */

/** The server's time limits, in the order in which they are asked for. */
export const LIMITS = [
  "statement_timeout",
  "lock_timeout",
  "idle_in_transaction_session_timeout",
  "transaction_timeout",
  "idle_session_timeout",
] as const;
export type LimitName = (typeof LIMITS)[number];

/** As a session of this role in this database has them when nobody changes them. */
export interface SessionSettings {
  readonly isolation: string;
  /** 0: there is no such limit. Undefined: this server does not know it. */
  readonly limitsMs: Partial<Record<LimitName, number>>;
  /** The same: how often it looks whether a client is still there. */
  readonly connectionCheckMs?: number | undefined;
}

export type Change = readonly [name: string, value: string];

const READ_COMMITTED = "read committed";
/** What is below this is raised to it, for our own statements: more than any of them takes. */
export const ENOUGH_MS = 60_000;
/** On a session that is not ours alone, raising costs two round trips for each statement: only what is below this is raised. */
export const LOW_MS = 1_000;
/**
 * A process may be stopped between a statement and the commit of its frame. The server ends such a transaction after this long, so that
 * nobody waits for its locks.
 */
export const FRAME_IDLE_MS = 5_000;

/**
 * The server looks this often whether the client of a running statement is still there: one that was given up, and may wait for a lock, is
 * not left behind. Only where the server can do that, and nobody has asked for something else.
 */
export const CONNECTION_CHECK = "client_connection_check_interval";
const CONNECTION_CHECK_MS = 5_000;

export function connectionCheck({ connectionCheckMs }: SessionSettings): Change[] {
  return connectionCheckMs === 0 ? [[CONNECTION_CHECK, String(CONNECTION_CHECK_MS)]] : [];
}

/** What to change on a session that is ours alone, once. */
export function changesForOwnSession({ isolation, limitsMs }: SessionSettings): Change[] {
  const changes: Change[] = [];
  if (isolation !== READ_COMMITTED) changes.push(["default_transaction_isolation", READ_COMMITTED]);
  for (const [name, ms] of limitsBelow(limitsMs, ENOUGH_MS)) {
    if (name !== "idle_session_timeout") changes.push([name, String(Math.max(ms, ENOUGH_MS))]);
  }
  // A session that listens or holds a lock is idle by nature, however long its limit is.
  if (limitsMs.idle_session_timeout) changes.push(["idle_session_timeout", "0"]);
  return changes;
}

/**
 * How each of our statements has to begin its transaction on a session that is not ours alone: a pooler's, or one of the
 * caller's pool. Undefined where nothing stands in the way.
 */
export function frameForSharedSession(settings: SessionSettings): string | undefined {
  const isUsual = settings.isolation === READ_COMMITTED && lowLimits(settings).length === 0;
  return isUsual ? undefined : frameFor(settings);
}

/** The same, whether anything stands in the way or not. */
export function frameFor(settings: SessionSettings): string {
  const idleMs = settings.limitsMs.idle_in_transaction_session_timeout ?? 0;
  const isIdleSetLower = idleMs >= LOW_MS && idleMs <= FRAME_IDLE_MS;
  const low = lowLimits(settings).filter((name) => name !== IDLE_IN_TRANSACTION);
  return beginWith([...low.map(raised), ...(isIdleSetLower ? [] : [[IDLE_IN_TRANSACTION, FRAME_IDLE_MS] as const])]);
}

/** How a transaction begins in which the application may take its time between two statements. */
export function beginForSharedSession(settings: SessionSettings): string {
  return beginWith(lowLimits(settings).map(raised));
}

const IDLE_IN_TRANSACTION = "idle_in_transaction_session_timeout";

function lowLimits({ limitsMs }: SessionSettings): LimitName[] {
  return limitsBelow(limitsMs, LOW_MS).flatMap(([name]) => (name === "idle_session_timeout" ? [] : [name]));
}

function raised(name: LimitName): readonly [LimitName, number] {
  return [name, withinTransaction(name)];
}

function beginWith(limits: (readonly [LimitName, number])[]): string {
  return [BEGIN, ...limits.map(([name, ms]) => `set local ${name} = ${ms}`)].join("; ");
}

/** The server counts a transaction's time from its beginning. Once it has begun, its limit can be taken away, but not raised. */
function withinTransaction(name: LimitName): number {
  return name === "transaction_timeout" ? 0 : ENOUGH_MS;
}

/** Whatever the default is. */
export const BEGIN = `begin isolation level ${READ_COMMITTED}`;

export function isReadCommitted({ isolation }: SessionSettings): boolean {
  return isolation === READ_COMMITTED;
}

/** The limits that are set, and set lower than this. */
export function limitsBelow(limitsMs: SessionSettings["limitsMs"], belowMs: number): [LimitName, number][] {
  return LIMITS.flatMap((name): [LimitName, number][] => {
    const ms = limitsMs[name] ?? 0;
    return ms > 0 && ms < belowMs ? [[name, ms]] : [];
  });
}
