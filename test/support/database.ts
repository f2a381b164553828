/** A database of the test's own on the shared server, dropped when the test file is done. */
import { randomBytes } from "node:crypto";
import pg from "pg";
import { afterAll, inject } from "vitest";
import type { OpenOptions } from "../../src/config/open-options.ts";
import { Everbeat } from "../../src/everbeat.ts";

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

export async function createTestDatabase(serverUrl: string = inject("serverUrl")): Promise<TestDatabase> {
  const name = `test_${randomBytes(6).toString("hex")}`;
  await onServer(serverUrl, `create database ${name}`);
  const address = new URL(serverUrl);
  address.pathname = `/${name}`;
  const pool = new pg.Pool({ connectionString: address.href, max: 4 });
  pool.on("error", () => {});
  return {
    url: address.href,
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

/** A fresh database and an Everbeat on it, both gone after the file's tests. */
export async function openTestEverbeat(
  options: OpenOptions = {},
): Promise<{ everbeat: Everbeat; database: TestDatabase }> {
  const database = await createTestDatabase();
  const everbeat = await Everbeat.open({ database: database.url, log: "silent", ...options });
  afterAll(async () => {
    await everbeat.close({ now: true });
    await database.drop();
  });
  return { everbeat, database };
}

async function onServer(serverUrl: string, statement: string): Promise<void> {
  const client = new pg.Client(serverUrl);
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
