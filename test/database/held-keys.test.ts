/** A transaction that is open holds a unique key, or an id that its caller chose. Only calls with that key or that id wait for it. */
import { randomUUID } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { Everbeat } from "../../src/everbeat.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const { everbeat, database } = await openTestEverbeat({ poolSize: 10 });
const plain = defineTask({ name: "plain", run: (_input: unknown) => null });

/** What a call has come to so far. */
function call(options: object | undefined) {
  const state: { id?: string; error?: unknown } = {};
  const done = everbeat.enqueue(plain, 1, options).then(
    (id) => Object.assign(state, { id }),
    (error: unknown) => Object.assign(state, { error }),
  );
  return { state, done };
}

/** A transaction in which these were enqueued. */
async function holding(...held: readonly object[]) {
  const client = new pg.Client(database.url);
  await client.connect();
  onTestFinished(() => client.end());
  await client.query("begin");
  const ids: string[] = [];
  for (const options of held) ids.push(await everbeat.enqueue(plain, 0, { ...options, tx: client }));
  return { client, ids };
}

const waiting = async () =>
  (await database.query("select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"))
    .length;
const untilSomebodyWaits = () => eventually(async () => (await waiting()) > 0, { what: "a call to wait for the key" });
const keys = (count: number) => Array.from({ length: count }, () => ({ uniqueKey: randomUUID() }));

describe.each([
  ["a unique key", () => ({ uniqueKey: randomUUID() })],
  ["a chosen id", () => ({ id: randomUUID() })],
])("%s that a transaction holds", (_what, draw) => {
  test("holds up nobody else, however many wait for it, and they are answered when it commits", async () => {
    const held = draw();
    const { client, ids } = await holding(held);
    const stuck = Array.from({ length: 12 }, () => call(held));
    await untilSomebodyWaits();
    stuck.push(call(held));
    // With keys and ids of their own, and without: in the same turn as one more that waits, and after it.
    const others = [...keys(30), ...keys(30).map(({ uniqueKey: id }) => ({ id })), undefined, undefined].map(call);
    stuck.push(call(held));
    for (const { done } of others) expect(await done).toEqual({ id: expect.any(String) });
    for (const { uniqueKey } of keys(5)) expect(await call({ uniqueKey }).done).toHaveProperty("id");
    await everbeat.enqueueMany(plain, [1, 2], { options: (n: unknown) => ({ uniqueKey: `${randomUUID()} ${n}` }) });
    // At first, some more try for a moment whether their key is free.
    await eventually(waiting, { until: (count) => count >= 1 && count <= 4, what: "few that wait" });
    expect(stuck.filter(({ state }) => state.id !== undefined || state.error !== undefined)).toEqual([]);
    await client.query("commit");
    for (const { done } of stuck) expect(await done).toEqual({ id: ids[0] });
  });

  test("is free when its transaction is rolled back: one of those who wait has it", async () => {
    const held = draw();
    const { client, ids } = await holding(held);
    const stuck = [call(held), call(held), call(held)];
    await untilSomebodyWaits();
    await client.query("rollback");
    const answers = new Set(await Promise.all(stuck.map(async ({ done }) => (await done).id)));
    expect(answers.size).toBe(1);
    if ("uniqueKey" in held) expect(answers).not.toContain(ids[0]);
    expect((await everbeat.tasks.show([...answers][0] as string)).state).toBe("pending");
  });

  test("does not keep its holder from enqueueing something else before it commits", async () => {
    const held = draw();
    const { client, ids } = await holding(held);
    const stuck: ReturnType<typeof call>[] = [];
    for (let calls = 0; calls < 12; calls++) {
      stuck.push(call(held));
      await setImmediate();
    }
    await untilSomebodyWaits();
    expect(await call(undefined).done).toHaveProperty("id");
    expect(await call(draw()).done).toHaveProperty("id");
    await client.query("commit");
    for (const { done } of stuck) expect(await done).toEqual({ id: ids[0] });
  });
});

test("many keys that are held take a few connections, and each is free when it is free", async () => {
  const held = keys(30);
  const [first, second] = [await holding(...held.slice(0, 15)), await holding(...held.slice(15))];
  const stuck = held.map(call);
  const bulks = held.map((options) => everbeat.enqueueMany(plain, [1], { options }));
  await untilSomebodyWaits();
  const others = [...keys(20), undefined, undefined].map(call);
  for (const { done } of others) expect(await done).toHaveProperty("id");
  // At first, some more try for a moment whether their key is free.
  await eventually(waiting, { until: (count) => count >= 1 && count <= 4, what: "few that wait" });
  await second.client.query("commit");
  for (const [index, { done }] of stuck.slice(15).entries()) expect(await done).toEqual({ id: second.ids[index] });
  expect((await Promise.all(bulks.slice(15))).flat()).toEqual(second.ids);
  expect(stuck.slice(0, 15).filter(({ state }) => "id" in state || "error" in state)).toEqual([]);
  await first.client.query("commit");
  for (const [index, { done }] of stuck.slice(0, 15).entries()) expect(await done).toEqual({ id: first.ids[index] });
  expect((await Promise.all(bulks.slice(0, 15))).flat()).toEqual(first.ids);
});

test("a duplicate that is to be refused is refused when the key is known to be taken, and only then", async () => {
  const [held] = keys(1);
  const { client, ids } = await holding(held as object);
  const refused = [1, 2].map(() => call({ ...held, onDuplicate: "refuse" }));
  const kept = call(held);
  await untilSomebodyWaits();
  await client.query("commit");
  expect(await kept.done).toEqual({ id: ids[0] });
  for (const { done } of refused) expect(await done).toMatchObject({ error: { code: "DUPLICATE_TASK" } });
});

describe("closing", () => {
  async function closingScene() {
    const own = await Everbeat.open({ database: database.url, log: "silent", poolSize: 4 });
    const held = keys(3) as [object, object, object];
    const { client, ids } = await holding(...held);
    const answers = [...held, held[0]].map((options) => own.enqueue(plain, 1, options).catch((error) => error));
    const bulk = own.enqueueMany(plain, [1], { options: held[1] }).catch((error) => error);
    onTestFinished(async () => {
      await client.query("rollback").catch(() => {});
      await own.close({ now: true });
    });
    await untilSomebodyWaits();
    return { own, client, ids, answers, bulk };
  }

  test("at once waits for nobody's key: who waits is told that it was closed", { timeout: 20_000 }, async () => {
    const { own, answers, bulk } = await closingScene();
    await own.close({ now: true });
    for (const answer of [...answers, bulk]) expect(await answer).toMatchObject({ code: "CLOSED" });
  });

  test("gracefully waits for a while: whose key is free by then is answered", { timeout: 20_000 }, async () => {
    const { own, client, ids, answers } = await closingScene();
    const closed = own.close();
    await client.query("commit");
    await closed;
    expect(await Promise.all(answers)).toEqual([...ids, ids[0]]);
  });

  test("gracefully does not wait without end", { timeout: 30_000 }, async () => {
    const { own, answers } = await closingScene();
    await own.close();
    for (const answer of answers) expect(await answer).toMatchObject({ code: "CLOSED" });
  });
});

test("of many keys in one turn, those that are free wait for none that are held, and one that becomes free does not wait for long", async () => {
  const held = keys(200);
  const [mine, lastly] = [keys(1)[0] as object, keys(1)[0] as object];
  const { client } = await holding(...held);
  const other = await holding(lastly);
  const stuck = held.map(call);
  const [free, freed] = [call(mine), call(lastly)];
  const heldKeys =
    "select from pg_stat_activity where datname = current_database() and query like '%enqueue_keyed%' and state = 'active'";
  // If each held key were waited for, this would take 40 s.
  await eventually(() => free.state.id, { within: 15_000, what: "the free key" });
  expect((await database.query(heldKeys)).length).toBeLessThanOrEqual(4);
  expect(freed.state).toEqual({});
  await other.client.query("rollback");
  await eventually(() => freed.state.id, { within: 15_000, what: "the key that became free" });
  // None of those that are held was answered meanwhile.
  expect(stuck.filter(({ state }) => state.id !== undefined || state.error !== undefined)).toEqual([]);
  await client.query("commit");
  for (const { done } of stuck) expect(await done).toEqual({ id: expect.any(String) });
});
