/** Rows that the database itself refuses to have written, whatever is written: as a trigger of a user's own, or a damaged page, would. */
import { onTestFinished } from "vitest";
import type { TestDatabase } from "./database.ts";

let serial = 0;

/** From now on, until it is allowed: whoever writes a row of this table for which this holds is refused. */
export async function refuse(database: TestDatabase, table: string, condition: string) {
  const name = `refusal_${++serial}`;
  await database.query(
    `create function public.${name}() returns trigger language plpgsql as $$ begin raise exception 'this row is not to be written'; end $$`,
  );
  await database.query(
    `create trigger ${name} before insert or update on everbeat.${table} for each row when (${condition}) execute function public.${name}()`,
  );
  const allow = () => database.query(`drop function if exists public.${name}() cascade`);
  onTestFinished(() => void allow());
  return { allow };
}
