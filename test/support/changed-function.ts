/** A function of the database in which something else stands in the place of a part, for a while: so a test shows that the part is needed. */
import { onTestFinished } from "vitest";
import type { TestDatabase } from "./database.ts";

/** There must be one function of that name. Returns what puts it back; that is done at the end of the test at the latest. */
export async function changeFunction(database: TestDatabase, name: string, find: string, replace: string) {
  const text = "select pg_get_functiondef($1::regproc) as now";
  const [{ now } = { now: "" }] = await database.query<{ now: string }>(text, [`everbeat.${name}`]);
  if (!now.includes(find)) throw new Error(`${name} has no "${find}"`);
  const restore = async () => void (await database.query(now));
  onTestFinished(restore);
  await database.query(now.replace(find, () => replace));
  return restore;
}
