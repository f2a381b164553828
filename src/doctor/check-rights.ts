/** Whether the role that we connect with may do what Everbeat does. */
import { advise } from "../advice.ts";
import type { Database } from "../database/database.ts";
import { quoteIdentifier } from "../database/identifiers.ts";
import { type Rights, readRights } from "../sql/rights.ts";
import { type Finding, good, warning, wrong } from "./finding.ts";

export async function checkRights(database: Database): Promise<Finding> {
  const rights = await readRights(database);
  if (!rights) return wrong("rights", "the server did not say what this role may do");
  return judgeRights(rights, database.schemaName);
}

export function judgeRights(rights: Rights, schema: string): Finding {
  const { role, databaseName, closedTables, closedSequences, closedFunctions } = rights;
  const [quoted, grantee] = [quoteIdentifier(schema), quoteIdentifier(role)];
  if (!rights.hasSchema) {
    if (rights.canCreateSchema) return good("rights", `role "${role}" may create the schema "${schema}"`);
    return wrong(
      "rights",
      `role "${role}" may not create the schema "${schema}" in "${databaseName}"`,
      advise("Create it with a role that may.", "schema.migrate", {}),
      "Or hand what `everbeat migrate --print` shows to whoever may.",
    );
  }
  if (!rights.canUseSchema)
    return wrong(
      "rights",
      `role "${role}" may not use the schema "${schema}"`,
      `grant usage on schema ${quoted} to ${grantee};`,
    );
  const onlyLooks = !rights.canWrite && rights.unreadableTables.length === 0 && closedFunctions.length === 0;
  if (closedTables.length > 0 && onlyLooks)
    return warning(
      "rights",
      `role "${role}" may look at everything in the schema "${schema}", and change nothing there`,
      "Workers, and whoever enqueues tasks or gives orders, need more rights: docs/database.md lists them.",
    );
  if (closedTables.length > 0)
    return wrong(
      "rights",
      `role "${role}" cannot read and write ${closedTables.length} tables of "${schema}", such as ${closedTables[0]}`,
      `grant select, insert, update, delete on all tables in schema ${quoted} to ${grantee};`,
    );
  if (closedSequences.length > 0)
    return wrong(
      "rights",
      `role "${role}" cannot draw from the sequence ${closedSequences[0]} of "${schema}"`,
      `grant usage on all sequences in schema ${quoted} to ${grantee};`,
    );
  if (closedFunctions.length > 0)
    return wrong(
      "rights",
      `role "${role}" cannot call ${closedFunctions.length} functions of "${schema}", such as ${closedFunctions[0]}`,
      `grant execute on all routines in schema ${quoted} to ${grantee};`,
    );
  const migrating = rights.canChangeSchema ? "and migrate" : "but not migrate: another role has to";
  return good("rights", `role "${role}" may work in the schema "${schema}", ${migrating}`.replace(", and", " and"));
}
