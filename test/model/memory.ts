/**
 * What the server knows at a point, kept aside, so that it can be put back to that: as by a base backup that is restored, or a standby
 * that was promoted too early. Unlogged tables are empty then.
 */
import type { Database } from "../../src/database/database.ts";
import { timeMover } from "./move-time.ts";
import { emptyTables, loggedTables } from "./tables.ts";

const ASIDE = "kept_aside";

/** How far each sequence had come; null: nothing was drawn. The tables are in the database: there is one such point. */
export type Point = readonly { readonly sequence: string; readonly last: string | null }[];

export interface Memory {
  keep(): Promise<Point>;
  /** `ageMs`: how much time has passed since by moving stamps, which are put back as they were. */
  putBack(point: Point, ageMs: number): Promise<void>;
}

export async function openMemory(database: Database): Promise<Memory> {
  const { schema, schemaName } = database;
  const tables = await loggedTables(database);
  const moveTime = await timeMover(database);
  await database.query(`create schema ${ASIDE}`);
  for (const table of tables) await database.query(`create table ${ASIDE}.${table} (like ${schema}.${table})`);
  /** All in one statement, so that they fit together. */
  const copyAll = (from: string, to: string) =>
    `with ${tables
      .map(
        (table) =>
          `put_${table} as (insert into ${to}.${table} overriding system value select * from ${from}.${table})`,
      )
      .join(", ")} select`;
  return {
    async keep() {
      await database.query(`truncate ${tables.map((table) => `${ASIDE}.${table}`).join(", ")}`);
      await database.query(copyAll(schema, ASIDE));
      return database.query(
        "select format('%I.%I', schemaname, sequencename) as sequence, last_value::text as last from pg_sequences where schemaname = $1",
        [schemaName],
      );
    },
    async putBack(point, ageMs) {
      await emptyTables(database);
      await database.query(copyAll(ASIDE, schema));
      for (const { sequence, last } of point) {
        await database.query("select setval($1, coalesce($2::bigint, 1), $2 is not null)", [sequence, last]);
      }
      await moveTime(ageMs);
    },
  };
}
