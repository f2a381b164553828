import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { ATTEMPT_OUTCOMES, ENDED_STATES, TASK_STATES, TASK_TRANSITIONS } from "../../src/task/states.ts";
import { openTestEverbeat } from "../support/database.ts";

const { database } = await openTestEverbeat();

/** The values that a CHECK constraint of this table allows in this column. */
async function allowed(table: string, column: string): Promise<string[]> {
  const [row] = await database.query<{ definition: string }>(
    `select pg_get_constraintdef(c.oid) as definition from pg_constraint c
     join pg_attribute a on a.attrelid = c.conrelid and a.attnum = any (c.conkey)
     where c.conrelid = ('everbeat.' || $1)::regclass and c.contype = 'c' and a.attname = $2`,
    [table, column],
  );
  return [...(row?.definition.matchAll(/'([^']+)'/g) ?? [])].map((match) => match[1] as string).sort();
}

test("the states of the table of transitions are those that the database allows", async () => {
  const inRunning = await allowed("running", "state");
  const inEnded = await allowed("ended", "state");
  expect(inRunning).toEqual(["claimed", "running"]);
  expect(inEnded).toEqual([...ENDED_STATES].sort());
  // Pending is the state of what is in `ready` or `parked`.
  expect(["pending", ...inRunning, ...inEnded].sort()).toEqual([...TASK_STATES].sort());
  expect(await allowed("attempt", "outcome")).toEqual([...ATTEMPT_OUTCOMES].sort());
});

test("the drawing in the docs has exactly these states and ways", () => {
  const drawing =
    /```mermaid\n(stateDiagram-v2[\s\S]*?)```/.exec(readFileSync("docs/task-states.md", "utf8"))?.[1] ?? "";
  const ways = [...drawing.matchAll(/^\s*(\w+) --> (\w+)/gm)]
    .map((match) => `${match[1]} → ${match[2]}`)
    .filter((way) => !way.includes("["));
  const table = Object.entries(TASK_TRANSITIONS).flatMap(([from, tos]) => tos.map((to) => `${from} → ${to}`));
  expect(ways.sort()).toEqual(table.sort());
});
