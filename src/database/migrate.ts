/**
 * Brings a schema up to this version: forward only, each migration in a transaction of its own, under a lock that
 * belongs to the transaction, so that ten processes starting at once are fine and a pooler does not matter.
 */
import {
  type AppliedMigration,
  applyMigration,
  liftLimits,
  lockMigrations,
  readDatabaseName,
  readServerVersion,
  readVersions,
} from "../sql/migrations.ts";
import { hostsOf } from "./connections.ts";
import type { Database } from "./database.ts";
import {
  MigrationChangedError,
  SchemaMissingError,
  SchemaTooNewError,
  SchemaTooOldError,
  UnsupportedServerError,
} from "./errors.ts";
import { quoteIdentifier } from "./identifiers.ts";
import { type Migration, readMigrations } from "./migrations.ts";

export interface MigrationReport {
  readonly schema: string;
  readonly applied: readonly string[];
  readonly version: number;
}

export async function migrate(
  database: Database,
  options: { migrations?: readonly Migration[]; onApplied?: (name: string) => void } = {},
): Promise<MigrationReport> {
  const migrations = options.migrations ?? readMigrations();
  const applied: string[] = [];
  for (;;) {
    const name = await applyNext(database, migrations);
    if (name === undefined) break;
    applied.push(name);
    options.onApplied?.(name);
  }
  return { schema: database.schemaName, applied, version: newest(migrations) };
}

/** Whether this code understands the schema as it is; says what to do where it does not. */
export async function assertSchemaFits(
  database: Database,
  migrations: readonly Migration[] = readMigrations(),
): Promise<void> {
  const versions = await readVersions(database);
  const known = newest(migrations);
  refuseStrange(database.schemaName, versions, migrations);
  const found = Math.max(0, ...versions.map((row) => row.version));
  if (found === 0) {
    const where = { database: await readDatabaseName(database), hosts: hostsOf(database.source) };
    throw new SchemaMissingError(database.schemaName, where);
  }
  if (found < known) throw new SchemaTooOldError(database.schemaName, found, known);
}

/** The whole of it as a script, for those who let nobody but themselves change a schema. */
export function migrationScript(schemaName: string, migrations: readonly Migration[] = readMigrations()): string {
  const schema = quoteIdentifier(schemaName);
  const head = `create schema if not exists ${schema};\nset search_path to ${schema}, pg_temp;\n`;
  const parts = migrations.map((migration) => `-- ${migration.name}\n${migration.sql}\n${recordSql(migration)}`);
  return `begin;\n${head}\n${MIGRATION_TABLE}\n${parts.join("\n")}\ncommit;\n`;
}

export const MIGRATION_TABLE = `create table if not exists migration (
  version integer primary key, name text not null, checksum text not null, compatible_from integer not null,
  applied_at timestamptz not null default now()
);`;

function recordSql({ version, name, checksum, compatibleFrom }: Migration): string {
  return `insert into migration (version, name, checksum, compatible_from) values (${version}, '${name}', '${checksum}', ${compatibleFrom});`;
}

async function applyNext(database: Database, migrations: readonly Migration[]): Promise<string | undefined> {
  // Most starts find nothing to do: look before taking the lock.
  const before = await readVersions(database);
  refuseStrange(database.schemaName, before, migrations);
  if (!nextOf(before, migrations)) return undefined;

  const { text, number } = await readServerVersion(database);
  if (number < 140_000) throw new UnsupportedServerError(text);
  return database.transaction(async (tx) => {
    await liftLimits(tx);
    await lockMigrations(tx, MIGRATION_TABLE);
    const next = nextOf(await readVersions(tx), migrations);
    if (!next) return undefined;
    await applyMigration(tx, next);
    return next.name;
  });
}

function nextOf(versions: readonly AppliedMigration[], migrations: readonly Migration[]): Migration | undefined {
  const done = new Set(versions.map((row) => row.version));
  return migrations.find((migration) => !done.has(migration.version));
}

function refuseStrange(schema: string, versions: readonly AppliedMigration[], migrations: readonly Migration[]): void {
  const known = newest(migrations);
  for (const row of versions) {
    const ours = migrations.find((migration) => migration.version === row.version);
    if (ours && ours.checksum !== row.checksum) throw new MigrationChangedError(ours.name);
    if (!ours && row.compatibleFrom > known) throw new SchemaTooNewError(schema, row.version, known);
  }
}

function newest(migrations: readonly Migration[]): number {
  return Math.max(0, ...migrations.map((migration) => migration.version));
}
