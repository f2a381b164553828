/** A database in which runs can be played one after the other, gone when the test file is done. */
import { afterAll } from "vitest";
import { Everbeat } from "../../src/everbeat.ts";
import { createMigratedDatabase } from "../support/database.ts";
import { openMemory } from "./memory.ts";
import { Sessions } from "./sessions.ts";
import type { Run } from "./steps.ts";
import { type Played, play } from "./world.ts";

export async function openModel(): Promise<(run: Run) => Promise<Played>> {
  const database = await createMigratedDatabase();
  // Nothing here is about the disk, and most of the time would be spent on waiting for it.
  await database.query(`alter database ${database.name} set synchronous_commit = off`);
  const everbeat = await Everbeat.open({ database: database.url, log: "silent", poolSize: 2 });
  // Hours pass here by moving stamps, and the server's processes were started minutes ago: what they have lived through is not to be asked.
  await database.query(
    "create or replace function everbeat.has_lived_since(p_since timestamptz) returns boolean language sql as 'select true'",
  );
  const sessions = new Sessions(database.url, everbeat.database.schema);
  const memory = await openMemory(everbeat.database);
  afterAll(async () => {
    await sessions.close();
    await everbeat.close({ now: true });
    await database.drop();
  });
  return (run) => play({ everbeat, sessions, memory }, run);
}
