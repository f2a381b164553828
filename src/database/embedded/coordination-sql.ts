// The statements by which the processes of an embedded server agree, all on its maintenance database.
//
//   presence   shared by every joined process, held for as long as it is joined
//              exclusive for the keeper while it stops the server: whoever joins then waits, is cut off, starts anew
//   keeper     exclusive for the one keeper
//   database   exclusive for whoever creates the database of the first start
//
// A lock goes with its session, so nothing is left behind by a process that is killed.
import type { Client } from "pg";

export const KEEPER_NAME = "everbeat keeper";
const LOCK_SPACE = 1163285061; // "EVBE"
const PRESENCE = 1;
const KEEPER = 2;
const DATABASE = 3;

export async function lockPresence(client: Client): Promise<void> {
  await client.query("select pg_advisory_lock_shared($1, $2)", [LOCK_SPACE, PRESENCE]);
}

/** True when nobody is present, and then nobody can become present until `allowPresence` or the end of the session. */
export async function tryToForbidPresence(client: Client): Promise<boolean> {
  return await ask(client, "select pg_try_advisory_lock($1, $2) as answer", [LOCK_SPACE, PRESENCE]);
}

export async function allowPresence(client: Client): Promise<void> {
  await client.query("select pg_advisory_unlock($1, $2)", [LOCK_SPACE, PRESENCE]);
}

export async function tryToBecomeKeeper(client: Client): Promise<boolean> {
  return await ask(client, "select pg_try_advisory_lock($1, $2) as answer", [LOCK_SPACE, KEEPER]);
}

export async function isKept(client: Client): Promise<boolean> {
  return await ask(
    client,
    `select exists (
       select from pg_locks
       where locktype = 'advisory' and classid = $1 and objid = $2 and objsubid = 2 and granted
     ) as answer`,
    [LOCK_SPACE, KEEPER],
  );
}

/** Someone who holds no presence counts too: a psql, or a pool that outlived its process's join. */
export async function isAnyoneConnected(client: Client): Promise<boolean> {
  return await ask(
    client,
    `select exists (
       select from pg_stat_activity
       where backend_type = 'client backend' and application_name is distinct from $1
     ) as answer`,
    [KEEPER_NAME],
  );
}

export interface ServerIdentity {
  /** Where it was started. */
  readonly dataFolder: string;
  readonly version: string;
  /** null when somebody has removed it; PostgreSQL then ends within a minute. */
  readonly postmasterFile: string | null;
  /** Its data folder is no longer where it was when it started. PostgreSQL fails at its next checkpoint then. */
  readonly hasMoved: boolean;
}

export async function identifyServer(client: Client): Promise<ServerIdentity> {
  const { rows } = await client.query<ServerIdentity>(
    `select data.folder as "dataFolder", current_setting('server_version') as version, here.file as "postmasterFile",
            -- A copy that was put in its place has the same content, and another time of change.
            (pg_stat_file('postmaster.pid', true)).change
              is distinct from (pg_stat_file(data.folder || '/postmaster.pid', true)).change
              as "hasMoved"
     from (select current_setting('data_directory')) as data (folder),
          (select pg_read_file('postmaster.pid', 0, 10000, true)) as here (file)`,
  );
  const [row] = rows;
  if (row === undefined) throw new Error("PostgreSQL did not say which server it is");
  return row;
}

/** One at a time: PostgreSQL would let one of several creators through, and fill the log with the others' errors. */
export async function ensureDatabase(client: Client): Promise<void> {
  const known = "select exists (select from pg_database where datname = 'everbeat') as answer";
  if (await ask(client, known, [])) return;
  await client.query("select pg_advisory_lock($1, $2)", [LOCK_SPACE, DATABASE]);
  if (!(await ask(client, known, []))) await client.query("create database everbeat");
  await client.query("select pg_advisory_unlock($1, $2)", [LOCK_SPACE, DATABASE]);
}

async function ask(client: Client, text: string, values: unknown[]): Promise<boolean> {
  const { rows } = await client.query<{ answer: boolean }>(text, values);
  return rows[0]?.answer === true;
}
