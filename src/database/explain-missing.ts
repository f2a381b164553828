/** What to tell where something of ours is not there: that the schema is to be migrated, instead of which table was looked for first. */
import type { Database } from "./database.ts";
import { databaseError } from "./database-error.ts";
import { isMendedByMigrating } from "./errors.ts";
import { assertSchemaFits } from "./migrate.ts";

/** A table, a schema, a function, a column or a type. */
const NOT_THERE = new Set(["42P01", "3F000", "42883", "42703", "42704"]);

/** The error itself where the schema fits, as for a table of somebody else, and where nothing can be said of the schema. */
export async function explainMissing(
  error: unknown,
  database: Pick<Database, "schema" | "schemaName" | "source" | "query">,
): Promise<unknown> {
  const code = databaseError(error)?.code;
  if (code === undefined || !NOT_THERE.has(code)) return error;
  const misfit: unknown = await assertSchemaFits(database).catch((reason: unknown) => reason);
  return isMendedByMigrating(misfit) ? Object.assign(misfit, { cause: error }) : error;
}
