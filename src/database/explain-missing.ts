/** What to tell where something of ours is not there: that nobody has migrated the schema, instead of which table was looked for first. */

import type { Database } from "./database.ts";
import { databaseError } from "./database-error.ts";

/** A table, a schema, a function, a column or a type. */
const NOT_THERE = new Set(["42P01", "3F000", "42883", "42703", "42704"]);

/** The error itself where the schema fits, as for a table of somebody else, and where nothing can be said of the schema. */
export async function explainMissing(
  error: unknown,
  database: Pick<Database, "schema" | "schemaName" | "source" | "query">,
): Promise<unknown> {
  const code = databaseError(error)?.code;
  if (code === undefined || !NOT_THERE.has(code)) return error;
  const [{ assertSchemaFits }, { EverbeatError }] = await Promise.all([import("./migrate.ts"), import("../errors.ts")]);
  try {
    await assertSchemaFits(database);
  } catch (misfit) {
    if (misfit instanceof EverbeatError) return Object.assign(misfit, { cause: error });
  }
  return error;
}
