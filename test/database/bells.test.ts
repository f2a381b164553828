/** A bell rings for tasks that were put in, and for nothing else. */
import { randomUUID } from "node:crypto";
import { beforeEach, expect, test } from "vitest";
import { openTestEverbeat } from "../support/database.ts";

const { database } = await openTestEverbeat();
beforeEach(() =>
  database.query(
    "insert into everbeat.bell (queue, armed) values ('*', true) on conflict (queue) do update set armed = true",
  ),
);

test.each([
  ["a list of no queues", "select everbeat.ring('{}')"],
  ["no list of queues", "select everbeat.ring(null)"],
  ["claims that are given back and hold no longer", `select everbeat.release_claims('{1}', '{${randomUUID()}}')`],
  ["a retry of a task that there is not", `select everbeat.retry_tasks('{${randomUUID()}}', false)`],
])("%s rings nobody's", async (_what, statement) => {
  await database.query(statement);
  expect(await database.query("select queue from everbeat.bell where armed")).toEqual([{ queue: "*" }]);
});

test("a queue rings its own, and that of workers who serve every queue", async () => {
  await database.query("select everbeat.ring('{mail}')");
  expect(await database.query("select queue from everbeat.bell where armed")).toEqual([]);
});
