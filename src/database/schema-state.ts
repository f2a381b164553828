/** What a schema is at, beside what this version needs. */
import { EverbeatError } from "../errors.ts";
import { readRecord } from "../sql/migrations.ts";
import type { Database } from "./database.ts";
import { isMendedByMigrating } from "./errors.ts";
import { assertSchemaFits, changedSince, ourSchema } from "./migrate.ts";

export interface SchemaState {
  readonly schema: string;
  /** That of the newest migration that was applied; 0: the schema is not there yet. */
  readonly version: number;
  /** The version that this code has. */
  readonly wanted: number;
  /** Migrations that were not applied yet. */
  readonly pending: readonly string[];
  /** How many functions, views and triggers would be made or replaced. */
  readonly outdated: number;
  /** To migrate is what helps, and all that is needed. */
  readonly needsMigration: boolean;
  /** Why this code cannot work with it; null: it can. */
  readonly problem: { readonly code: string; readonly message: string } | null;
}

export async function readSchemaState(database: Database): Promise<SchemaState> {
  const wanted = ourSchema();
  const record = await readRecord(database);
  const applied = record.versions.map(({ version }) => version);
  const misfit = await assertSchemaFits(database, wanted).catch((error: unknown) => error);
  if (misfit !== undefined && !(misfit instanceof EverbeatError)) throw misfit;
  return {
    schema: database.schemaName,
    version: Math.max(0, ...applied),
    wanted: Math.max(0, ...wanted.migrations.map(({ version }) => version)),
    pending: wanted.migrations.filter(({ version }) => !applied.includes(version)).map(({ name }) => name),
    outdated: changedSince(record.routines, wanted).length,
    needsMigration: isMendedByMigrating(misfit),
    problem: misfit === undefined ? null : { code: misfit.code, message: misfit.message },
  };
}
