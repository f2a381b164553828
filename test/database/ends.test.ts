/** Whoever ends a task, by whichever way, what hangs on an end is told of it: once, in the same transaction, with the end on record. */
import { randomUUID } from "node:crypto";
import { beforeAll, beforeEach, expect, test } from "vitest";
import { emptyTables } from "../model/tables.ts";
import { openTestEverbeat } from "../support/database.ts";
import { waysToEnd } from "../support/ways-to-end.ts";

const { everbeat, database } = await openTestEverbeat();
const { ways, claimer, put, held, of } = waysToEnd({ everbeat, database });

beforeAll(() =>
  database.query(`
    create table told (task uuid, how text, is_seen boolean);
    create or replace function everbeat.after_end(p_ended uuid[], p_again uuid[] default null) returns void
    language plpgsql set search_path from current as $$
    begin
      insert into public.told
      select t, e.state, e.state is not null from unnest(p_ended) t left join everbeat.ended e on e.task_id = t
      union all
      select t, 'again', r.task_id is not null from unnest(p_again) t left join everbeat.ready r on r.task_id = t;
    end $$`),
);
beforeEach(async () => {
  await emptyTables(everbeat.database);
  await database.query("truncate told");
});

for (const [who, { as, prepare }] of Object.entries(ways)) {
  test(`by ${who}`, async () => {
    const { tasks, end } = await prepare();
    await end();
    const rows = await database.query<{ task: string; how: string; is_seen: boolean }>("select * from told");
    const expected = tasks.map((task, at) => ({ task, how: as[at] as string, is_seen: true }));
    expect(rows.toSorted(byTask)).toEqual(expected.toSorted(byTask));
    const ended = "select task_id from everbeat.ended except select task from told";
    expect(await database.query(ended)).toEqual([]);
  });
}

const byTask = (one: { task: string }, other: { task: string }) => one.task.localeCompare(other.task);

test("nobody is told of a claim that is given back, of a task that is replaced, nor of an end that was refused", async () => {
  const task = await held("claimed");
  await database.query("select everbeat.release_claims($1, $2)", [[task.claimId], [task.taskId]]);
  const key = { uniqueKey: randomUUID(), onDuplicate: "replace" } as const;
  expect(await put(key)).toBe(await put(key));
  await claimer.end([{ ...of(task), claim: task.claimId }]);
  expect(await database.query("select * from told")).toEqual([]);
});
