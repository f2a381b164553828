/** Whether this version of Everbeat understands the schema as it is. */
import { advise } from "../advice.ts";
import type { Database } from "../database/database.ts";
import { RoutinesTooOldError, SchemaMissingError, SchemaTooOldError } from "../database/errors.ts";
import { assertSchemaFits } from "../database/migrate.ts";
import { readMigrations } from "../database/migrations.ts";
import { EverbeatError } from "../errors.ts";
import { readRecord } from "../sql/migrations.ts";
import { type Finding, good, warning, wrong } from "./finding.ts";

export async function checkSchema(database: Database): Promise<Finding> {
  const { schemaName } = database;
  try {
    await assertSchemaFits(database);
    return good("schema", `"${schemaName}" is up to date, at version ${readMigrations().length}`);
  } catch (error) {
    if (error instanceof SchemaMissingError) return notThere(schemaName);
    if (error instanceof SchemaTooOldError) return pending(schemaName, await countPending(database));
    if (error instanceof RoutinesTooOldError) return warning("schema", error.message, MIGRATE);
    if (!(error instanceof EverbeatError)) throw error;
    return wrong("schema", error.message);
  }
}

async function countPending(database: Database): Promise<number> {
  return readMigrations().length - (await readRecord(database)).versions.length;
}

const MIGRATE = advise("Bring it up to date, or start a worker, which does it too.", "schema.migrate", {});

function notThere(schema: string): Finding {
  return warning("schema", `"${schema}" is not there yet`, MIGRATE);
}

function pending(schema: string, count: number): Finding {
  const found = `"${schema}" waits for ${count} ${count === 1 ? "migration" : "migrations"}`;
  return warning("schema", found, MIGRATE);
}
