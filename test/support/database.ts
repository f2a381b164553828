/** A database of the test's own on the shared server, dropped when the test file is done. */
import pg from "pg";
import { afterAll, inject } from "vitest";
import type { OpenOptions } from "../../src/config/open-options.ts";
import { Everbeat } from "../../src/everbeat.ts";
import { newDatabaseName, onServer, urlOfDatabase } from "./migrated-template.ts";

/** The sessions that notices come on, by the last that was said on them: to listen, or to stand in for a heart and no longer. */
export const LISTENING = `pg_stat_activity where datname = current_database() and application_name <> 'everbeat heart'
  and (query ilike 'listen %' or query ilike 'select pg_advisory_%lock_shared(%')`;

export interface TestDatabase {
  readonly url: string;
  readonly name: string;
  /** On the test's database, outside of everything that is tested. */
  query<Row = Record<string, unknown>>(text: string, values?: unknown[]): Promise<Row[]>;
  drop(): Promise<void>;
}

/** `kind`: more of the statement that creates it. */
export async function createTestDatabase(
  serverUrl: string = inject("serverUrl"),
  { kind = "" }: { kind?: string } = {},
): Promise<TestDatabase> {
  const name = newDatabaseName();
  await onServer(serverUrl, `create database ${name} ${kind}`);
  const url = urlOfDatabase(serverUrl, name);
  const pool = new pg.Pool({ connectionString: url, max: 4 });
  pool.on("error", () => {});
  return {
    url,
    name,
    async query<Row>(text: string, values?: unknown[]) {
      return (await pool.query(text, values)).rows as Row[];
    },
    async drop() {
      await pool.end();
      await onServer(serverUrl, `drop database if exists ${name} with (force)`);
    },
  };
}

/** A copy of the migrated one on the shared server. */
export function createMigratedDatabase(): Promise<TestDatabase> {
  return createTestDatabase(inject("serverUrl"), { kind: `template ${inject("migratedTemplate")}` });
}

/** A fresh database and an Everbeat on it, both gone after the file's tests. `of`: another kind of database than the migrated one. */
export async function openTestEverbeat(
  options: OpenOptions = {},
  ...of: Parameters<typeof createTestDatabase>
): Promise<{ everbeat: Everbeat; database: TestDatabase }> {
  const database = await (of.length === 0 ? createMigratedDatabase() : createTestDatabase(...of));
  const everbeat = await Everbeat.open({ database: database.url, log: "silent", ...options });
  afterAll(async () => {
    await everbeat.close({ now: true });
    await database.drop();
  });
  return { everbeat, database };
}
