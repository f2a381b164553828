/** The tables of the schema, whatever migrations add, but for the record of the migrations themselves. */
import type { Database } from "../../src/database/database.ts";

/** Not deleted: what is deleted, and all the stamps that were moved, would burden every run that follows. */
export async function emptyTables(database: Database): Promise<void> {
  const names = await tables(database, "true");
  await database.query(`truncate ${names.map((name) => `${database.schema}.${name}`).join(", ")}`);
}

/** Those that a crash leaves as they are. */
export function loggedTables(database: Database): Promise<string[]> {
  return tables(database, "relpersistence = 'p'");
}

async function tables({ query, schemaName }: Database, are: string): Promise<string[]> {
  const rows = await query<{ name: string }>(
    `select relname as name from pg_class
     where relnamespace = (select oid from pg_namespace where nspname = $1) and relkind = 'r' and relname not in ('migration', 'routines') and ${are}`,
    [schemaName],
  );
  return rows.map(({ name }) => name);
}
