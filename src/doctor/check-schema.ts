/** Whether this version of Everbeat understands the schema as it is. */
import { advise } from "../advice.ts";
import type { Database } from "../database/database.ts";
import { readSchemaState, type SchemaState } from "../database/schema-state.ts";
import { type Finding, good, warning, wrong } from "./finding.ts";

export async function checkSchema(database: Database): Promise<Finding> {
  return judgeSchema(await readSchemaState(database));
}

export function judgeSchema({ schema, version, pending, needsMigration, problem }: SchemaState): Finding {
  if (problem === null) return good("schema", `"${schema}" is up to date, at version ${version}`);
  if (!needsMigration) return wrong("schema", problem.message);
  const advice = advise("Bring it up to date, or start a worker, which does it too.", "schema.migrate", {});
  if (version === 0) return warning("schema", `"${schema}" is not there yet`, advice);
  if (pending.length === 0) return warning("schema", problem.message, advice);
  const migrations = pending.length === 1 ? "1 migration" : `${pending.length} migrations`;
  return warning("schema", `"${schema}" waits for ${migrations}`, advice);
}
