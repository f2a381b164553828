/**
 * Settings that an administrator may have changed for a role or a database, and that our own statements must not be run with:
 * an isolation level in which a statement counts in an old snapshot, transactions that may write nothing, texts of times and numbers that
 * we would read wrong, and time limits that end a statement before it can be done.
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

/** How the server writes times and numbers as text, which is how we are sent them. */
export const FORMS = ["datestyle", "extra_float_digits"] as const;
export type FormName = (typeof FORMS)[number];

/** As a session of this role in this database has them when nobody changes them. */
export interface SessionSettings {
  readonly isolation: string;
  /** Its transactions write nothing unless they are told to. Not of a server that follows another, where none can. */
  readonly isReadOnly: boolean;
  readonly forms: Readonly<Record<FormName, string>>;
  /** 0: there is no such limit. Undefined: this server does not know it. */
  readonly limitsMs: Partial<Record<LimitName, number>>;
  /** How often the server looks whether a client is still there. 0: never. Undefined: unknown to this server. */
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

export interface Misfit {
  readonly name: string;
  readonly found: string;
  readonly needed: string;
}

/** What is not as our statements need it, apart from time limits. */
export function misfitsOf({ isolation, isReadOnly, forms }: SessionSettings): Misfit[] {
  const misfits: Misfit[] = [];
  const misfit = (name: string, found: string, needed: string) => misfits.push({ name, found, needed });
  if (isolation !== READ_COMMITTED) misfit("default_transaction_isolation", isolation, READ_COMMITTED);
  if (isReadOnly) misfit("default_transaction_read_only", "on", "off");
  // The order of days and months in what is read, which is the other half of it, stays as it is.
  if (!forms.datestyle.startsWith("ISO")) misfit("datestyle", forms.datestyle, "ISO");
  if (Number(forms.extra_float_digits) < 0) misfit("extra_float_digits", forms.extra_float_digits, "1");
  return misfits;
}

/** What to change on a session that is ours alone, once. */
export function changesForOwnSession(settings: SessionSettings): Change[] {
  const { limitsMs } = settings;
  const changes = misfitsOf(settings).map(({ name, needed }): Change => [name, needed]);
  for (const [name] of limitsBelow(limitsMs, ENOUGH_MS)) {
    if (name !== "idle_session_timeout") changes.push([name, String(ENOUGH_MS)]);
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
  const isUsual = misfitsOf(settings).length === 0 && lowLimits(settings).length === 0;
  return isUsual ? undefined : frameFor(settings);
}

/** The same, whether anything stands in the way or not. */
export function frameFor(settings: SessionSettings): string {
  const idleMs = settings.limitsMs.idle_in_transaction_session_timeout ?? 0;
  const isIdleSetLower = idleMs >= LOW_MS && idleMs <= FRAME_IDLE_MS;
  const low = lowLimits(settings).filter((name) => name !== IDLE_IN_TRANSACTION);
  return beginWith(settings, [
    ...low.map(raised),
    ...(isIdleSetLower ? [] : [[IDLE_IN_TRANSACTION, FRAME_IDLE_MS] as const]),
  ]);
}

/** How a transaction begins in which the application may take its time between two statements. */
export function beginForSharedSession(settings: SessionSettings): string {
  return beginWith(settings, lowLimits(settings).map(raised));
}

const IDLE_IN_TRANSACTION = "idle_in_transaction_session_timeout";

function lowLimits({ limitsMs }: SessionSettings): LimitName[] {
  return limitsBelow(limitsMs, LOW_MS).flatMap(([name]) => (name === "idle_session_timeout" ? [] : [name]));
}

function raised(name: LimitName): readonly [LimitName, number] {
  return [name, withinTransaction(name)];
}

function beginWith(settings: SessionSettings, limits: (readonly [LimitName, number])[]): string {
  const begin = settings.isReadOnly ? `${BEGIN} read write` : BEGIN;
  // Isolation and read/write are in BEGIN itself.
  const forms = misfitsOf(settings).filter(({ name }) => (FORMS as readonly string[]).includes(name));
  const changes = [...forms.map(({ name, needed }) => [name, needed] as const), ...limits];
  return [begin, ...changes.map(([name, value]) => `set local ${name} = ${value}`)].join("; ");
}

/** The server counts a transaction's time from its beginning. Once it has begun, its limit can be taken away, but not raised. */
function withinTransaction(name: LimitName): number {
  return name === "transaction_timeout" ? 0 : ENOUGH_MS;
}

/** Whatever the default is. */
export const BEGIN = `begin isolation level ${READ_COMMITTED}`;

/** The limits that are set, and set lower than this. */
export function limitsBelow(limitsMs: SessionSettings["limitsMs"], belowMs: number): [LimitName, number][] {
  return LIMITS.flatMap((name): [LimitName, number][] => {
    const ms = limitsMs[name] ?? 0;
    return ms > 0 && ms < belowMs ? [[name, ms]] : [];
  });
}
