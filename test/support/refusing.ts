/** Rows that the database itself refuses to have written, whatever is written: as a trigger of a user's own, or a damaged page, would. */
import { onTestFinished } from "vitest";
import type { TestDatabase } from "./database.ts";

let serial = 0;

/** From now on, until it is allowed: whoever writes a row of this table for which this holds is refused. */
export async function refuse(database: TestDatabase, table: string, condition: string) {
  return trigger(database, { table, condition, before: "insert or update", does: REFUSAL });
}

/** The same for whoever deletes a row. `isSilent`: the trigger keeps the row, and raises no error. */
export async function refuseToDelete(
  database: TestDatabase,
  table: string,
  condition: string,
  { isSilent = false } = {},
) {
  return trigger(database, { table, condition, before: "delete", does: isSilent ? "return null" : REFUSAL });
}

const REFUSAL = "raise exception 'this row is not to be written'";

async function trigger(
  database: TestDatabase,
  { table, condition, before, does }: { table: string; condition: string; before: string; does: string },
) {
  const name = `refusal_${++serial}`;
  await database.query(`create function public.${name}() returns trigger language plpgsql as $$ begin ${does}; end $$`);
  await database.query(
    `create trigger ${name} before ${before} on everbeat.${table} for each row when (${condition}) execute function public.${name}()`,
  );
  const allow = () => database.query(`drop function if exists public.${name}() cascade`);
  onTestFinished(async () => {
    await allow();
  });
  return { allow };
}
