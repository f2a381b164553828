/** Statements of the migrator. */
import type { Store } from "../database/database.ts";
import type { Migration } from "../database/migrations.ts";
import { LIMITS } from "../database/session-settings.ts";

export interface AppliedMigration {
  readonly version: number;
  readonly checksum: string;
  readonly compatibleFrom: number;
}

/** What has been applied; nothing where the schema is not there yet. */
export async function readVersions(store: Store): Promise<AppliedMigration[]> {
  const [found] = await store.query<{ table: string | null }>("select to_regclass($1)::text as table", [
    `${store.schema}.migration`,
  ]);
  if (!found?.table) return [];
  return store.query<AppliedMigration>(
    `select version, checksum, compatible_from as "compatibleFrom" from ${store.schema}.migration order by version`,
  );
}

/** A migration takes as long as it takes, and may have to wait for another: the limits that somebody set are not meant for it. */
export async function liftLimits(tx: Store): Promise<void> {
  await tx.query("select set_config(name, '0', true) from pg_settings where name = any ($1::text[])", [[...LIMITS]]);
}

/** One migrator at a time in this schema, until the transaction ends; makes the schema and the record if need be. */
export async function lockMigrations(tx: Store, migrationTable: string): Promise<void> {
  await tx.query("select pg_advisory_xact_lock(hashtextextended('everbeat/migrate/' || $1, 0))", [tx.schema]);
  const [found] = await tx.query<{ exists: boolean }>("select to_regnamespace($1) is not null as exists", [tx.schema]);
  // `if not exists` asks for the right to create schemas even where there is nothing to create.
  if (!found?.exists) await tx.query(`create schema ${tx.schema}`);
  await tx.query(`set local search_path to ${tx.schema}, pg_temp`);
  await tx.query(migrationTable);
}

export async function applyMigration(tx: Store, migration: Migration): Promise<void> {
  await tx.query(`set local search_path to ${tx.schema}, pg_temp`);
  await tx.query(migration.sql);
  await tx.query(
    `insert into ${tx.schema}.migration (version, name, checksum, compatible_from) values ($1, $2, $3, $4)`,
    [migration.version, migration.name, migration.checksum, migration.compatibleFrom],
  );
}

export async function readServerVersion(store: Store): Promise<{ text: string; number: number }> {
  const [row] = await store.query<{ text: string; number: number }>(
    "select current_setting('server_version') as text, current_setting('server_version_num')::int as number",
  );
  return row ?? { text: "unknown", number: 0 };
}

export async function readDatabaseName(store: Store): Promise<string> {
  const [row] = await store.query<{ name: string }>("select current_database()::text as name");
  return row?.name ?? "unknown";
}
