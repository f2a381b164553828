/** Statements of the migrator. */
import type { Store } from "../database/database.ts";
import type { Migration } from "../database/migrations.ts";
import type { Routine } from "../database/routines.ts";
import { LIMITS } from "../database/session-settings.ts";

export interface AppliedMigration {
  readonly version: number;
  readonly checksum: string;
  readonly compatibleFrom: number;
}

/** Which functions, views and triggers the schema has: those of this release, each with the checksum of its text. */
export interface RoutinesOnRecord {
  readonly release: string;
  readonly checksums: Readonly<Record<string, string>>;
}

export interface SchemaRecord {
  readonly versions: readonly AppliedMigration[];
  /** Undefined: none have been made yet. */
  readonly routines: RoutinesOnRecord | undefined;
}

/** What has been applied is written here, by the migrator and by the script that `everbeat migrate --print` shows. */
export const RECORD_TABLES = `create table if not exists migration (
  version integer primary key, name text not null, checksum text not null, compatible_from integer not null,
  applied_at timestamptz not null default now()
);
create table if not exists routines (
  is_only boolean primary key default true check (is_only), release text not null, checksums json not null,
  replaced_at timestamptz not null default now()
);`;

/** So a function may be made before those that it calls. */
export const UNCHECKED = "set local check_function_bodies to off;";

/** Nothing where the schema is not there yet. */
export async function readRecord(store: Store): Promise<SchemaRecord> {
  const [found] = await store.query<{ hasVersions: boolean; hasRoutines: boolean }>(
    `select to_regclass($1) is not null as "hasVersions", to_regclass($2) is not null as "hasRoutines"`,
    [`${store.schema}.migration`, `${store.schema}.routines`],
  );
  if (!found?.hasVersions) return { versions: [], routines: undefined };
  const versions = await store.query<AppliedMigration>(
    `select version, checksum, compatible_from as "compatibleFrom" from ${store.schema}.migration order by version`,
  );
  if (!found.hasRoutines) return { versions, routines: undefined };
  const [routines] = await store.query<RoutinesOnRecord>(`select release, checksums from ${store.schema}.routines`);
  return { versions, routines };
}

/** A migration takes as long as it takes, and may have to wait for another: the limits that somebody set are not meant for it. */
export async function liftLimits(tx: Store): Promise<void> {
  await tx.query("select set_config(name, '0', true) from pg_settings where name = any ($1::text[])", [[...LIMITS]]);
}

/** One migrator at a time in this schema, until the transaction ends; makes the schema and the record if need be. */
export async function lockMigrations(tx: Store): Promise<void> {
  await tx.query("select pg_advisory_xact_lock(hashtextextended('everbeat/migrate/' || $1, 0))", [tx.schema]);
  const [found] = await tx.query<{ exists: boolean }>("select to_regnamespace($1) is not null as exists", [tx.schema]);
  // `if not exists` asks for the right to create schemas even where there is nothing to create.
  if (!found?.exists) await tx.query(`create schema ${tx.schema}`);
  await tx.query(`set local search_path to ${tx.schema}, pg_temp`);
  await tx.query(RECORD_TABLES);
}

export async function applyMigration(tx: Store, migration: Migration): Promise<void> {
  await tx.query(`set local search_path to ${tx.schema}, pg_temp`);
  await tx.query(migration.sql);
  await tx.query(
    `insert into ${tx.schema}.migration (version, name, checksum, compatible_from) values ($1, $2, $3, $4)`,
    [migration.version, migration.name, migration.checksum, migration.compatibleFrom],
  );
}

export async function replaceRoutines(
  tx: Store,
  changed: readonly Routine[],
  { release, checksums }: RoutinesOnRecord,
): Promise<void> {
  await tx.query([UNCHECKED, ...changed.map(({ sql }) => sql)].join("\n"));
  await tx.query(
    `insert into ${tx.schema}.routines (release, checksums) values ($1, $2)
     on conflict (is_only) do update set release = excluded.release, checksums = excluded.checksums, replaced_at = now()`,
    [release, JSON.stringify(checksums)],
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
