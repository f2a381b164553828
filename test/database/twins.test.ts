/** What SQL does in two ways, because the usual case has a quicker one, leaves the same on record in both. */
import { randomUUID } from "node:crypto";
import { beforeEach, describe, expect, test } from "vitest";
import { emptyTables } from "../model/tables.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";

const { everbeat, database } = await openTestEverbeat();
beforeEach(() => emptyTables(everbeat.database));

const UUID = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;
const CLAIM = /("claim_id":)\d+/g;
const TIME = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[^"]*/g;

/** All rows of these tables, without what differs between two tasks. */
async function record(tables: readonly string[]) {
  const rows = await Promise.all(
    tables.map((table) => database.query(`select row_to_json(t)::text as row from everbeat.${table} t order by 1`)),
  );
  // Which times are the same is the same in both.
  const alike = (row: string) => {
    const times = [...new Set(row.match(TIME))];
    return row
      .replace(UUID, "id")
      .replace(TIME, (time) => `time ${times.indexOf(time)}`)
      .replace(CLAIM, "$1 claim");
  };
  return Object.fromEntries(tables.map((table, n) => [table, rows[n]?.map(({ row }) => alike(row as string)).sort()]));
}

/** The record after each of these ways, from an empty database. */
async function recordAfter(ways: readonly (() => Promise<unknown>)[], tables: readonly string[]) {
  const records = [];
  for (const act of ways) {
    await emptyTables(everbeat.database);
    const answer = await act();
    records.push({ answer, rows: await record(tables) });
  }
  return records;
}

describe("a task that is put in", () => {
  const put = (input: string, how: "alone" | "fresh" | "with its own id") => async () => {
    const [id, name, queue, priority] = [randomUUID(), "t", "q", 3];
    const terms = JSON.stringify([{ ids: [id], name, queue, priority }]);
    if (how === "alone")
      await database.query("select everbeat.insert_task($1, $2, $3, $4, $5)", [id, name, queue, priority, input]);
    else
      await database.query("select everbeat.insert_tasks($1, $2, $3, true)", [terms, `[[${input}]]`, how === "fresh"]);
  };

  test.each([
    ["short", '{"a":  1}'],
    ["long", JSON.stringify("x".repeat(300))],
  ])("with a %s input: by itself, among others, and by an id of the caller's", async (_, input) => {
    const tables = ["task", "ready", "lane", "parked", "unique_hold"];
    const [alone, fresh, own] = await recordAfter(
      [put(input, "alone"), put(input, "fresh"), put(input, "with its own id")],
      tables,
    );
    expect(alone?.rows["task"]).toHaveLength(1);
    expect(fresh).toEqual(alone);
    // Found by the task's id, and not by its place: so it has no input.
    const [place = ""] = alone?.rows["ready"] ?? [];
    const withoutInput = `${place.slice(0, place.indexOf('"input":'))}"input":null}`;
    expect(own).toEqual({ ...alone, rows: { ...alone?.rows, ready: [withoutInput] } });
  });
});

describe("a claim that completes", () => {
  const TABLES = ["task", "ready", "parked", "running", "ended", "attempt", "lane", "late", "waiter", "progress"];

  const complete = (options: object, run: number, isSaid: boolean) => async () => {
    await everbeat.queues.set("one", { concurrency: 1 });
    const claimer = handClaimer(everbeat.database, ["t"]);
    const rows = await database.query("select everbeat.enqueue('t', '1', $1) as id from generate_series(1, 2)", [
      JSON.stringify(options),
    ]);
    const ids = rows.map(({ id }) => id);
    await database.query("insert into everbeat.waiter (task_id) select unnest($1::uuid[])", [ids]);
    const [claim] = await claimer.claim({ run });
    const outcome = { claim: claim?.claimId, to: "completed", outcome: "completed", result: "null" };
    const said = JSON.stringify(isSaid ? [outcome] : []);
    const [row] = await database.query("select everbeat.end_claims(array[$1::bigint], array[$2::uuid], $3) as answer", [
      ...[claim?.claimId, claim?.taskId, said],
    ]);
    const answer = row?.["answer"] as { unparked?: unknown[] } | null;
    return answer && { ...answer, unparked: answer.unparked?.length };
  };

  test.each([
    { what: "plain", options: {}, run: 1, unparked: 0 },
    { what: "with an exclusive key, for which another one waits", options: { exclusiveKey: "k" }, run: 2, unparked: 1 },
    { what: "of a queue that lets one run at a time", options: { queue: "one" }, run: 2, unparked: 0 },
  ])("$what: whether its outcome is said or not", async ({ options, run, unparked }) => {
    const [silent, said] = await recordAfter([complete(options, run, false), complete(options, run, true)], TABLES);
    expect(silent?.answer).toEqual(unparked ? expect.objectContaining({ unparked }) : null);
    expect([silent?.rows["ended"], silent?.rows["running"]]).toEqual([[expect.anything()], []]);
    expect(said).toEqual(silent);
  });
});
