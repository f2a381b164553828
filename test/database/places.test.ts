/** Where a pending task waits: with its input by its place, without it by its id. Whoever asks for a task finds it either way. */
import { randomUUID } from "node:crypto";
import pg from "pg";
import { expect, test } from "vitest";
import { pageOf } from "../../src/sql/task-filter.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { handClaimer, releaseClaims } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { pagesTouched } from "../support/pages-touched.ts";

const { everbeat, database } = await openTestEverbeat();
const noop = defineTask({ name: "noop", run: (_input: unknown) => null });
const claimer = handClaimer(everbeat.database, ["noop"]);

/** Pending tasks of every kind: their ids, and whether each waits in `ready` with its input. */
const KINDS: Record<string, { hasInput: boolean | undefined; put: (queue: string) => Promise<string> }> = {
  "a plain one": { hasInput: true, put: (queue) => everbeat.enqueue(noop, 1, { queue }) },
  "one of many": {
    hasInput: true,
    put: async (queue) => (await everbeat.enqueueMany(noop, [1], { options: { queue } }))[0] as string,
  },
  "one put in without terms of its own": { hasInput: true, put: () => everbeat.enqueue(noop, 1) },
  "one with a long input": { hasInput: false, put: (queue) => everbeat.enqueue(noop, "x".repeat(300), { queue }) },
  "a delayed one": { hasInput: false, put: (queue) => everbeat.enqueue(noop, 1, { queue, delay: "1h" }) },
  "one with a key": { hasInput: false, put: (queue) => everbeat.enqueue(noop, 1, { queue, exclusiveKey: queue }) },
  "one with an id of its own": {
    hasInput: false,
    put: (queue) => everbeat.enqueue(noop, 1, { queue, id: randomUUID() }),
  },
  "one that was given back": {
    hasInput: false,
    async put(queue) {
      const id = await everbeat.enqueue(noop, 1, { queue });
      const [task] = await claimer.claim({ queues: [queue], room: [null], run: 0, prefetch: 1 });
      await releaseClaims(everbeat.database, [task as never]);
      return id;
    },
  },
  "one that is parked": {
    hasInput: undefined,
    async put(queue) {
      const options = { queue, exclusiveKey: queue };
      await everbeat.enqueue(noop, 1, options);
      const id = await everbeat.enqueue(noop, 2, options);
      await claimer.claim({ queues: [queue], room: [null] });
      expect(await database.query("select from everbeat.parked where task_id = $1", [id])).toHaveLength(1);
      return id;
    },
  },
};

const rowOf = async (id: string) => {
  const rows = await database.query<{ hasInput: boolean }>(
    `select input is not null as "hasInput" from everbeat.ready where task_id = $1`,
    [id],
  );
  expect(rows.length).toBeLessThan(2);
  return rows[0];
};

for (const [kind, { hasInput, put }] of Object.entries(KINDS)) {
  const pending = async () => {
    const id = await put(`q-${randomUUID()}`);
    expect(await rowOf(id)).toEqual(hasInput === undefined ? undefined : { hasInput });
    return id;
  };

  test(`${kind} is shown, listed and known as pending`, async () => {
    const id = await pending();
    expect(await everbeat.tasks.show(id)).toMatchObject({ state: "pending", attempt: 0, failures: 0, crashes: 0 });
    const listed = await everbeat.tasks.list({ state: "pending", limit: 1_000 });
    expect(listed.tasks.map((task) => task.id)).toContain(id);
    expect(await database.query("select everbeat.task_state($1) as state", [id])).toEqual([{ state: "pending" }]);
    expect(await database.query("select from everbeat.pending where task_id = $1", [id])).toHaveLength(1);
  });

  test(`${kind} expires where it waits, once`, async () => {
    const id = await pending();
    const expire = "select everbeat.expire_tasks(array[$1::uuid]) as expired";
    expect(await database.query(expire, [id])).toEqual([{ expired: 1 }]);
    expect(await everbeat.tasks.show(id)).toMatchObject({ state: "expired", attempt: 0 });
    expect(await database.query(expire, [id])).toEqual([{ expired: 0 }]);
    expect(await database.query("select from everbeat.pending where task_id = $1", [id])).toEqual([]);
  });

  test(`${kind} is due when it is asked for, and is cancelled once`, async () => {
    const id = await pending();
    expect(await everbeat.tasks.retry([id])).toMatchObject([{ id, outcome: "due" }]);
    expect(await everbeat.tasks.show(id)).toMatchObject({ state: "pending" });
    expect(await everbeat.tasks.cancel([id])).toMatchObject([{ id, outcome: "cancelled" }]);
    expect(await rowOf(id)).toBeUndefined();
    expect(await everbeat.tasks.cancel([id])).toMatchObject([{ id, outcome: "ended" }]);
    expect(await everbeat.tasks.show(id)).toMatchObject({ state: "cancelled" });
  });

  test(`${kind} is replaced where it waits`, async () => {
    const id = await pending();
    const terms = JSON.stringify({ ids: [randomUUID()], name: "noop", queue: `q-${randomUUID()}`, priority: 0 });
    const replace = "select everbeat.replace_pending($1, $2::json, $3::json, true) as was";
    expect(await database.query(replace, [id, terms, "[2]"])).toEqual([{ was: true }]);
    expect(await rowOf(id)).toEqual({ hasInput: false });
    expect(await everbeat.tasks.show(id)).toMatchObject({ state: "pending", input: 2 });
    await everbeat.tasks.cancel([id]);
    expect(await database.query(replace, [id, terms, "[3]"])).toEqual([{ was: false }]);
  });
}

test("one task among many is found by pages, not by a walk, however it waits", async () => {
  const client = new pg.Client(database.url);
  await client.connect();
  const queue = `q-${randomUUID()}`;
  const ids = await everbeat.enqueueMany(
    noop,
    Array.from({ length: 20_000 }, (_, n) => n),
    { options: { queue } },
  );
  const later = await everbeat.enqueueMany(
    noop,
    Array.from({ length: 20_000 }, (_, n) => n),
    { options: { queue, delay: "1h" } },
  );
  for (const id of [ids[7_000], later[7_000]]) {
    const touched = (text: string) => pagesTouched(client, text, [id]);
    expect(await touched("select * from everbeat.tasks where id = $1")).toBeLessThan(200);
    expect(await touched("select everbeat.task_state($1)")).toBeLessThan(200);
    expect(await touched("select * from everbeat.cancel_tasks(array[$1::uuid], 0, null)")).toBeLessThan(400);
  }
  const { clauses } = pageOf("everbeat", { state: "pending" }, { limit: 50 });
  expect(await pagesTouched(client, `select * from everbeat.tasks t ${clauses}`)).toBeLessThan(3_000);
  await client.end();
}, 60_000);

test("every table can be replicated: what is deleted from it is told apart by a key, or whole", async () => {
  const without = await database.query(
    `select c.relname from pg_class c
     where c.relnamespace = 'everbeat'::regnamespace and c.relkind = 'r' and c.relpersistence = 'p' and c.relreplident <> 'f'
       and not exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary)`,
  );
  expect(without).toEqual([]);
  await database.query("create publication everything for all tables");
  try {
    const queue = `q-${randomUUID()}`;
    await everbeat.enqueue(noop, 1, { queue });
    const [task] = await claimer.claim({ queues: [queue], room: [null] });
    await claimer.complete(task as never);
    await database.query("select everbeat.purge_beats(0, 1000)");
  } finally {
    await database.query("drop publication everything");
  }
});
