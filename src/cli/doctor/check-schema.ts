/** Whether this version of Everbeat understands the schema as it is. */
import type { Database } from "../../database/database.ts";
import { SchemaTooOldError } from "../../database/errors.ts";
import { assertSchemaFits } from "../../database/migrate.ts";
import { readMigrations } from "../../database/migrations.ts";
import { EverbeatError } from "../../errors.ts";
import { readVersions } from "../../sql/migrations.ts";
import { type Finding, good } from "./finding.ts";

export async function checkSchema(database: Database): Promise<Finding> {
  const { schemaName } = database;
  try {
    await assertSchemaFits(database);
    return good("schema", `"${schemaName}" is up to date, at version ${readMigrations().length}`);
  } catch (error) {
    if (error instanceof SchemaTooOldError) return pending(schemaName, await countPending(database));
    if (!(error instanceof EverbeatError)) throw error;
    return { check: "schema", mark: "wrong", found: error.message };
  }
}

async function countPending(database: Database): Promise<{ pending: number; applied: number }> {
  const applied = (await readVersions(database)).length;
  return { applied, pending: readMigrations().length - applied };
}

function pending(schema: string, count: { pending: number; applied: number }): Finding {
  const found =
    count.applied === 0
      ? `"${schema}" is not there yet`
      : `"${schema}" waits for ${count.pending} ${count.pending === 1 ? "migration" : "migrations"}`;
  return {
    check: "schema",
    mark: "warning",
    found,
    advice: "Run `everbeat migrate`, or start a worker, which does it too.",
  };
}
