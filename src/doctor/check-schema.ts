/** Whether this version of Everbeat understands the schema as it is. */
import type { Database } from "../database/database.ts";
import { RoutinesTooOldError, SchemaMissingError, SchemaTooOldError } from "../database/errors.ts";
import { assertSchemaFits } from "../database/migrate.ts";
import { readMigrations } from "../database/migrations.ts";
import { EverbeatError } from "../errors.ts";
import { readRecord } from "../sql/migrations.ts";
import { type Finding, good } from "./finding.ts";

export async function checkSchema(database: Database): Promise<Finding> {
  const { schemaName } = database;
  try {
    await assertSchemaFits(database);
    return good("schema", `"${schemaName}" is up to date, at version ${readMigrations().length}`);
  } catch (error) {
    if (error instanceof SchemaMissingError) return notThere(schemaName);
    if (error instanceof SchemaTooOldError) return pending(schemaName, await countPending(database));
    if (error instanceof RoutinesTooOldError)
      return { check: "schema", mark: "warning", found: error.message, advice: MIGRATE };
    if (!(error instanceof EverbeatError)) throw error;
    return { check: "schema", mark: "wrong", found: error.message };
  }
}

async function countPending(database: Database): Promise<number> {
  return readMigrations().length - (await readRecord(database)).versions.length;
}

const MIGRATE = "Run `everbeat migrate`, or start a worker, which does it too.";

function notThere(schema: string): Finding {
  return { check: "schema", mark: "warning", found: `"${schema}" is not there yet`, advice: MIGRATE };
}

function pending(schema: string, count: number): Finding {
  const found = `"${schema}" waits for ${count} ${count === 1 ? "migration" : "migrations"}`;
  return { check: "schema", mark: "warning", found, advice: MIGRATE };
}
