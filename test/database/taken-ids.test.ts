/** An id that a caller chose belongs to one task: the same name again is the same task, another name is refused. */
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { everbeatHere as here } from "../cli/run-here.ts";
import { openTestEverbeat } from "../support/database.ts";

const { everbeat, database } = await openTestEverbeat();
const first = defineTask({ name: "first", run: (_input: unknown) => null });
const second = defineTask({ name: "second", run: (_input: unknown) => null });
const namesOf = async (ids: readonly string[]) =>
  (
    await database.query<{ name: string }>("select name from everbeat.task where id = any ($1) order by name", [ids])
  ).map(({ name }) => name);
const taken = (taskId: string) => ({ code: "ID_TAKEN", task: "second", taskId, holder: "first" });

test("another name with an id that is taken is refused, and the error says by which task; the same name is the same task", async () => {
  const id = randomUUID();
  await everbeat.enqueue(first, 1, { id });
  await expect(everbeat.enqueue(second, 1, { id })).rejects.toMatchObject({
    ...taken(id),
    message: `Task "second" was not enqueued: its id ${id} is that of a task "first". Choose another id for it.`,
  });
  await expect(everbeat.enqueue(second, 1, { id, uniqueKey: "k" })).rejects.toMatchObject(taken(id));
  await expect(everbeat.enqueue(second, "x".repeat(100_000), { id })).rejects.toMatchObject(taken(id));
  expect(await everbeat.enqueue(first, 2, { id })).toBe(id);
  expect(await everbeat.enqueue(second, 1, { uniqueKey: "k" })).not.toBe(id);
});

test("of calls at the same time, only the one that is refused fails", async () => {
  const [id, other] = [randomUUID(), randomUUID()];
  await everbeat.enqueue(first, 1, { id });
  const calls = await Promise.allSettled([
    everbeat.enqueue(second, 1, { id }),
    everbeat.enqueue(second, 1, { id: other }),
    everbeat.enqueue(first, 1, { id }),
  ]);
  expect(calls.map(({ status }) => status)).toEqual(["rejected", "fulfilled", "fulfilled"]);
  expect(await namesOf([id, other])).toEqual(["first", "second"]);
});

test("two names at once for one id: one of them has it, and the other is refused", async () => {
  const id = randomUUID();
  const calls = await Promise.allSettled([everbeat.enqueue(first, 1, { id }), everbeat.enqueue(second, 1, { id })]);
  expect(calls.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
  expect(await namesOf([id])).toHaveLength(1);
});

test("many tasks are enqueued together or not at all", async () => {
  const [id, other] = [randomUUID(), randomUUID()];
  await everbeat.enqueue(first, 1, { id });
  const many = everbeat.enqueueMany(second, [other, id], { options: (input) => ({ id: input as string }) });
  await expect(many).rejects.toMatchObject(taken(id));
  expect(await namesOf([id, other])).toEqual(["first"]);
});

test("in a transaction, in SQL and on the command line it is refused as well", async () => {
  const id = randomUUID();
  await everbeat.enqueue(first, 1, { id });
  const inTransaction = everbeat.database.transaction((tx) => everbeat.enqueue(second, 1, { id, tx }));
  await expect(inTransaction).rejects.toMatchObject(taken(id));
  const inSql = database.query("select everbeat.enqueue('second', '1', $1)", [JSON.stringify({ id })]);
  await expect(inSql).rejects.toMatchObject({
    code: "EB009",
    message: expect.stringContaining("that of a task first"),
  });
  const { code, stderr } = await here(["enqueue", "second", "1", "--id", id], { database: database.url });
  expect([code, stderr]).toEqual([1, expect.stringContaining('is that of a task "first"')]);
  expect(await namesOf([id])).toEqual(["first"]);
});
