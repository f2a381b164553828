/** What a connection turns out to be once it is made, and how our statements are run on it. */
import type pg from "pg";
import { runOn } from "./database.ts";
import {
  BEGIN,
  beginForSharedSession,
  type Change,
  CONNECTION_CHECK,
  changesForOwnSession,
  connectionCheck,
  FORMS,
  frameFor,
  frameForSharedSession,
  LIMITS,
  type SessionSettings,
} from "./session-settings.ts";
import { isTransient } from "./transient.ts";

export interface Session {
  /**
   * The server's process is the one that the driver was told of at connect: no pooler in between that gives each transaction
   * another session. Only then do locks, LISTEN and settings of the session mean something.
   */
  readonly isDirect: boolean;
  /** How a transaction around each of our statements must begin. Undefined where none is needed. */
  readonly frame: string | undefined;
  /** How a transaction of several statements begins. */
  readonly begin: string;
  /** As they were found. */
  readonly settings: SessionSettings;
}

export interface SessionFacts {
  readonly isDirect: boolean;
  readonly isPrimary: boolean;
  readonly settings: SessionSettings;
}

/** A connection that is not of our pool, and nobody's but ours. */
export interface DedicatedConnection {
  readonly client: pg.Client;
  readonly session: Session;
}

/** One statement. It is sent before any lock is taken, because an idle pooler can look like a session for a while. */
export async function lookAtSession(client: pg.ClientBase, replyWithinMs: number): Promise<SessionFacts> {
  const [row] = await runOn<Record<string, unknown>>(client, LOOK, [], { replyWithinMs });
  const limits = LIMITS.map((name) => [name, row?.[name] ?? undefined]);
  return {
    isDirect: row?.["pid"] === (client as unknown as { processID: number }).processID,
    isPrimary: row?.["follows"] === false,
    settings: {
      isolation: String(row?.["isolation"]),
      isReadOnly: row?.["read_only"] === true,
      forms: Object.fromEntries(FORMS.map((name) => [name, String(row?.[name])])) as SessionSettings["forms"],
      limitsMs: Object.fromEntries(limits) as SessionSettings["limitsMs"],
      connectionCheckMs: (row?.[CONNECTION_CHECK] as number | null | undefined) ?? undefined,
    },
  };
}

/** The server shows a limit with the unit that suits it best ("1min"). An interval can be written in the same way. */
const LOOK = `select pg_backend_pid() as pid, pg_is_in_recovery() as follows, current_setting('default_transaction_isolation') as isolation,
  current_setting('default_transaction_read_only') = 'on' and not pg_is_in_recovery() as read_only,
  ${FORMS.map((name) => `current_setting('${name}') as ${name}`).join(", ")},
  ${[...LIMITS, CONNECTION_CHECK].map((name) => `(extract(epoch from current_setting('${name}', true)::interval) * 1000)::float8 as ${name}`).join(", ")}`;

/** Our own connection: what stands in the way is changed for the whole session, or where that cannot be, for each statement. */
export async function settleOwnSession(
  client: pg.ClientBase,
  { isDirect, settings }: SessionFacts,
  more: readonly Change[] = [],
): Promise<Session> {
  const changes = [...changesForOwnSession(settings), ...more];
  const check = connectionCheck(settings);
  // A server on a platform without such a check refuses it. Then the others are changed without it.
  const isChecked = isDirect && check.length > 0 && (await change(client, [...changes, ...check]));
  const isSettled = isChecked || (isDirect && (changes.length === 0 || (await change(client, changes))));
  if (isSettled) return { isDirect, settings, frame: undefined, begin: BEGIN };
  return settleSharedSession({ isDirect, settings });
}

/** A connection of the caller's: nothing of it is changed. */
export function settleSharedSession({ isDirect, settings }: Omit<SessionFacts, "isPrimary">): Session {
  return { isDirect, settings, frame: frameForSharedSession(settings), begin: beginForSharedSession(settings) };
}

/**
 * A session that turned out to be another than it had looked. Behind a pooler, the look may be at one session and the next statement go
 * to another: from now on every statement has a frame.
 */
export function afterSurprise(session: Session): Session {
  return session.isDirect ? session : { ...session, frame: frameFor(session.settings) };
}

async function change(client: pg.ClientBase, changes: readonly Change[]): Promise<boolean> {
  const names = changes.map(([name]) => name);
  const values = changes.map(([, value]) => value);
  try {
    await runOn(
      client,
      "select set_config(name, value, false) from unnest($1::text[], $2::text[]) as s (name, value)",
      [names, values],
    );
    return true;
  } catch (error) {
    if (isTransient(error)) throw error;
    return false;
  }
}
