/**
 * Brings a schema up to this version: forward only, each step in a transaction of its own, under a lock that belongs to the
 * transaction, so that ten processes starting at once are fine and a pooler does not matter. The last step replaces the functions, views and
 * triggers whose text has changed. What a newer release has put there stays: it works for older code too.
 */
import {
  applyMigration,
  liftLimits,
  lockMigrations,
  RECORD_TABLES,
  type RoutinesOnRecord,
  readDatabaseName,
  readRecord,
  readServerVersion,
  replaceRoutines,
  type SchemaRecord,
  UNCHECKED,
} from "../sql/migrations.ts";
import { VERSION } from "../version.ts";
import { hostsOf } from "./connections.ts";
import type { Database } from "./database.ts";
import {
  isMendedByMigrating,
  MigrationChangedError,
  RoutinesTooOldError,
  SchemaMissingError,
  SchemaTooNewError,
  SchemaTooOldError,
  UnsupportedServerError,
} from "./errors.ts";
import { quoteIdentifier } from "./identifiers.ts";
import { type Migration, readMigrations } from "./migrations.ts";
import { compareReleases } from "./release-order.ts";
import { type Routine, readRoutines } from "./routines.ts";

export interface MigrationReport {
  readonly schema: string;
  readonly applied: readonly string[];
  /** How many functions, views and triggers were made or replaced. */
  readonly replaced: number;
  readonly version: number;
}

/** What a schema should be. */
export interface Wanted {
  readonly migrations: readonly Migration[];
  readonly routines: readonly Routine[];
  readonly release: string;
}

type Step =
  | { readonly kind: "migration"; readonly migration: Migration }
  | { readonly kind: "routines"; readonly changed: readonly Routine[] };

export function ourSchema(): Wanted {
  return { migrations: readMigrations(), routines: readRoutines(), release: VERSION };
}

/** Called before each step, with what that is. */
export type MigrationProgress = (reached: {
  readonly done: number;
  readonly of: number;
  readonly step: string;
}) => void;

export async function migrate(
  database: Database,
  options: Partial<Wanted> & { onProgress?: MigrationProgress | undefined } = {},
): Promise<MigrationReport> {
  const { onProgress, ...given } = options;
  const wanted = { ...ourSchema(), ...given };
  const applied: string[] = [];
  let [done, replaced] = [0, 0];
  const onStep = (steps: readonly Step[]) => {
    const step = nameOf(steps[0]);
    if (step !== undefined) onProgress?.({ done, of: done + steps.length, step });
  };
  for (let step = await takeStep(database, wanted, onStep); step; step = await takeStep(database, wanted, onStep)) {
    if (step.kind === "migration") applied.push(step.migration.name);
    else replaced += step.changed.length;
    done++;
  }
  return { schema: database.schemaName, applied, replaced, version: newest(wanted.migrations) };
}

/** Whether this code understands the schema as it is; says what to do where it does not. */
export async function assertSchemaFits(
  database: Pick<Database, "schema" | "schemaName" | "source" | "query">,
  wanted: Wanted = ourSchema(),
): Promise<void> {
  const record = await readRecord(database);
  const known = newest(wanted.migrations);
  refuseStrange(database.schemaName, record, wanted.migrations);
  const found = Math.max(0, ...record.versions.map((row) => row.version));
  if (found === 0) {
    const where = { database: await readDatabaseName(database), hosts: hostsOf(database.source) };
    throw new SchemaMissingError(database.schemaName, where);
  }
  if (found < known) throw new SchemaTooOldError(database.schemaName, found, known);
  const changed = changedSince(record.routines, wanted);
  if (changed.length > 0) throw new RoutinesTooOldError(database.schemaName, changed.length);
}

/** The whole of it as a script, for those who let nobody but themselves change a schema. */
export function migrationScript(schemaName: string): string {
  const { migrations, routines, release } = ourSchema();
  const schema = quoteIdentifier(schemaName);
  return [
    ...["begin;", `create schema if not exists ${schema};`, `set local search_path to ${schema}, pg_temp;`, ""],
    ...[RECORD_TABLES, UNCHECKED, ""],
    ...migrations.map((migration) => `-- ${migration.name}\n${migration.sql}\n${recordSql(migration)}\n`),
    ...routines.map(({ name, sql }) => `-- ${name}\n${sql}`),
    `insert into routines (release, checksums) values ('${release}', '${JSON.stringify(checksumsOf(routines))}');`,
    "commit;\n",
  ].join("\n");
}

function recordSql({ version, name, checksum, compatibleFrom }: Migration): string {
  return `insert into migration (version, name, checksum, compatible_from) values (${version}, '${name}', '${checksum}', ${compatibleFrom});`;
}

async function takeStep(
  database: Database,
  wanted: Wanted,
  onStep: (steps: readonly Step[]) => void,
): Promise<Step | undefined> {
  // Most starts find nothing to do: look before taking the lock.
  const before = await readRecord(database);
  refuseStrange(database.schemaName, before, wanted.migrations);
  const steps = stepsFrom(before, wanted);
  if (steps.length === 0) return undefined;
  onStep(steps);

  const { text, number } = await readServerVersion(database);
  if (number < 140_000) throw new UnsupportedServerError(text);
  const taking = database.transaction(async (tx) => {
    await liftLimits(tx);
    await lockMigrations(tx);
    // A newer version may have made its own while we waited.
    const record = await readRecord(tx);
    refuseStrange(database.schemaName, record, wanted.migrations);
    const [step] = stepsFrom(record, wanted);
    if (step?.kind === "migration") await applyMigration(tx, step.migration);
    if (step?.kind === "routines") {
      const { release, routines } = wanted;
      await replaceRoutines(tx, step.changed, { release, checksums: checksumsOf(routines) });
    }
    return step;
  });
  return taking.catch((error: unknown) => Promise.reject(unexplained(error)));
}

/** What fails in a migration is told as it is, and not as a schema that is to be migrated. */
function unexplained(error: unknown): unknown {
  return isMendedByMigrating(error) ? error.cause : error;
}

/** What is left to be done, in order. */
function stepsFrom(record: SchemaRecord, wanted: Wanted): Step[] {
  const done = new Set(record.versions.map((row) => row.version));
  const migrations = wanted.migrations.filter(({ version }) => !done.has(version));
  const steps: Step[] = migrations.map((migration) => ({ kind: "migration", migration }));
  const changed = changedSince(record.routines, wanted);
  const isNewer = !record.routines || compareReleases(wanted.release, record.routines.release) > 0;
  return changed.length > 0 || isNewer ? [...steps, { kind: "routines", changed }] : steps;
}

export function changedSince(onRecord: RoutinesOnRecord | undefined, wanted: Wanted): readonly Routine[] {
  if (!onRecord) return wanted.routines;
  if (compareReleases(onRecord.release, wanted.release) > 0) return [];
  return wanted.routines.filter(({ name, checksum }) => onRecord.checksums[name] !== checksum);
}

/** Nothing where no more is done than to write down the release. */
function nameOf(step: Step | undefined): string | undefined {
  if (step?.kind === "migration") return step.migration.name;
  const count = step?.changed.length ?? 0;
  return count > 0
    ? `${count} ${count === 1 ? "function, view or trigger" : "functions, views and triggers"}`
    : undefined;
}

function refuseStrange(schema: string, { versions }: SchemaRecord, migrations: readonly Migration[]): void {
  const known = newest(migrations);
  for (const row of versions) {
    const ours = migrations.find((migration) => migration.version === row.version);
    if (ours && ours.checksum !== row.checksum) throw new MigrationChangedError(ours.name);
    if (!ours && row.compatibleFrom > known) throw new SchemaTooNewError(schema, row.version, known);
  }
}

function checksumsOf(routines: readonly Routine[]): Record<string, string> {
  return Object.fromEntries(routines.map(({ name, checksum }) => [name, checksum]));
}

function newest(migrations: readonly Migration[]): number {
  return Math.max(0, ...migrations.map((migration) => migration.version));
}
