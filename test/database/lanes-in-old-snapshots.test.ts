/**
 * Transactions that keep an old snapshot (repeatable read, serializable) share a lane that stays. Where it may have gone since their
 * snapshot, they add one. However that falls in with the steps in which lanes are taken out, no task is left in a lane that nobody searches.
 */
import { randomUUID } from "node:crypto";
import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { Everbeat } from "../../src/everbeat.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { handClaimer } from "../support/claims.ts";
import { createTestDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { startOwnServer } from "../support/own-server.ts";

const noop = defineTask({ name: "noop", run: (_input: unknown) => null });
const LEVELS = ["repeatable read", "serializable"];

async function openScene(serverUrl?: string) {
  const database = await createTestDatabase(serverUrl);
  onTestFinished(() => database.drop());
  const everbeat = await Everbeat.open({ database: database.url, log: "silent" });
  onTestFinished(() => everbeat.close({ now: true }));
  const claimer = handClaimer(everbeat.database, ["noop"]);
  const lanes = (queue: string) =>
    database.query("select is_leaving from everbeat.lane where queue = $1 order by is_leaving", [queue]);
  /** One step, whatever the last one cost and however few lanes there are. */
  const step = async () => {
    await database.query("select everbeat.retire_lanes(0)");
    await database.query("update everbeat.upkeep set lanes_next_at = '-infinity'");
  };
  return {
    ...{ everbeat, database, lanes, step },
    claimIn: async (queue: string) =>
      (await claimer.claim({ queues: [queue], room: [null] })).map(({ taskId }) => taskId),
    async emptyLane() {
      await database.query("delete from everbeat.lane");
      await database.query("update everbeat.upkeep set lanes_after = null, lanes_next_at = '-infinity'");
      const queue = `q-${randomUUID()}`;
      await everbeat.enqueue(noop, 1, { queue });
      for (const task of await claimer.claim({ queues: [queue], room: [null] })) await claimer.complete(task);
      return queue;
    },
    /** The next step would take it out, once what runs in other databases at this moment has ended. */
    async untilAboutToGo(queue: string) {
      for (let n = 0; n < 2; n++) await step();
      expect(await lanes(queue)).toEqual([{ is_leaving: true }]);
      const isLast = "select from everbeat.upkeep where lanes_after <= pg_snapshot_xmin(pg_current_snapshot())";
      await eventually(() => database.query(isLast), { until: (rows) => rows.length > 0, within: 60_000 });
    },
    async connect() {
      const client = new pg.Client(database.url);
      client.on("error", () => {});
      await client.connect();
      onTestFinished(() => client.end());
      return client;
    },
  };
}

/** It begins, and its snapshot is taken. */
async function begin(client: pg.Client, level: string): Promise<void> {
  await client.query(`begin isolation level ${level}`);
  await client.query("select 1 as the_snapshot_is_taken");
}

/** After how many steps a transaction begins, enqueues and commits: every way there is. */
const STEPS = 4;
const places = Array.from({ length: STEPS + 1 }, (_, place) => place);
const from = (first: number) => places.filter((place) => place >= first);
const TIMELINES = places.flatMap((begins) =>
  from(begins).flatMap((enqueues) => from(enqueues).map((commits) => ({ begins, enqueues, commits }))),
);

test("a task is found however its transaction falls in with the steps that take out its lane", async () => {
  // A step waits for transactions of all databases of a server.
  const { everbeat, emptyLane, connect, step, claimIn, lanes } = await openScene((await startOwnServer()).url);
  const client = await connect();
  for (const timeline of LEVELS.flatMap((level) => TIMELINES.map((one) => ({ ...one, level })))) {
    const { begins, enqueues, commits, level } = timeline;
    const queue = await emptyLane();
    let id = "";
    for (const place of places) {
      if (place === begins) await begin(client, level);
      if (place === enqueues) id = await everbeat.enqueue(noop, 2, { queue, tx: client });
      if (place === commits) await client.query("commit");
      if (place < STEPS) await step();
    }
    for (let more = 0; more < STEPS; more++) await step();
    expect(await lanes(queue), JSON.stringify(timeline)).toHaveLength(1);
    expect(await claimIn(queue), JSON.stringify(timeline)).toEqual([id]);
  }
}, 180_000);

describe.each(LEVELS)("in %s", (level) => {
  test("many tasks, in one transaction or in many, add no lane to the one that is there", async () => {
    const { everbeat, database, emptyLane, connect, lanes, claimIn } = await openScene();
    const queue = await emptyLane();
    const client = await connect();
    // Somebody's snapshot is old: what is deleted stays in the way of every search.
    await begin(await connect(), level);
    for (let n = 0; n < 10; n++) {
      await begin(client, level);
      for (let m = 0; m < 3; m++) await everbeat.enqueue(noop, 1, { queue, tx: client });
      await client.query("select everbeat.enqueue('noop', '1', $1)", [JSON.stringify({ queue, uniqueKey: `${n}` })]);
      await client.query("commit");
    }
    expect(await lanes(queue)).toEqual([{ is_leaving: false }]);
    // Where none is there, one is added, once.
    await begin(client, level);
    await database.query("delete from everbeat.lane");
    for (let n = 0; n < 10; n++) await everbeat.enqueue(noop, 1, { queue, tx: client });
    await client.query("commit");
    expect(await lanes(queue)).toEqual([{ is_leaving: false }]);
    expect(await claimIn(queue)).toHaveLength(50);
  }, 60_000);

  test.each(["before", "after"])(
    "a transaction that began %s its lane was to go does not wait for the one that takes it out, and adds another",
    async (began) => {
      const { everbeat, emptyLane, untilAboutToGo, connect, lanes, claimIn } = await openScene();
      const [caller, retiring] = [await connect(), await connect()];
      const queue = await emptyLane();
      if (began === "before") await begin(caller, level);
      await untilAboutToGo(queue);
      if (began === "after") await begin(caller, level);
      await retiring.query("begin");
      await retiring.query("select everbeat.retire_lanes(0)");
      expect((await retiring.query("select from everbeat.lane where queue = $1", [queue])).rowCount).toBe(0);
      const id = await everbeat.enqueue(noop, 2, { queue, tx: caller });
      for (const client of [retiring, caller]) await client.query("commit");
      expect(await lanes(queue)).toEqual([{ is_leaving: false }]);
      expect(await claimIn(queue)).toEqual([id]);
    },
    90_000,
  );

  test("a task that is committed in the middle of the step that would take out its lane keeps it", async () => {
    const { everbeat, database, emptyLane, untilAboutToGo, connect, lanes, claimIn } = await openScene();
    const [caller, holder, retiring] = [await connect(), await connect(), await connect()];
    const queue = await emptyLane();
    // Lanes before and behind it: at the first that goes, the step is held up.
    await database.query(
      "insert into everbeat.lane (queue, priority) select place || $1 || n, 0 from generate_series(1, 10) n, unnest('{a,z}'::text[]) place",
      [queue],
    );
    await database.query(`create function public.hold_up() returns trigger language plpgsql as $$ begin
      perform pg_advisory_xact_lock_shared(1); return old; end $$`);
    await database.query(
      "create trigger hold_up before delete on everbeat.lane for each row execute function public.hold_up()",
    );
    await begin(caller, level);
    await untilAboutToGo(queue);
    const id = await everbeat.enqueue(noop, 2, { queue, tx: caller });
    await holder.query("begin; select pg_advisory_xact_lock(1)");
    await retiring.query("alter function everbeat.retire_lanes set lock_timeout = '60s'");
    const retired = retiring.query("select everbeat.retire_lanes(0)");
    const waiting = `select from pg_locks l join pg_database d on d.oid = l.database and d.datname = current_database()
      where l.locktype = 'advisory' and not l.granted`;
    await eventually(() => database.query(waiting), { until: (rows) => rows.length > 0, what: "the step to wait" });
    await caller.query("commit");
    await holder.query("commit");
    await retired;
    expect(await lanes(queue)).toHaveLength(1);
    expect(await claimIn(queue)).toEqual([id]);
  }, 90_000);
});

test("thousands of rows for one lane become one by a walk over them, and not by one for each, also beside an old snapshot", async () => {
  const { database, connect, step } = await openScene();
  const client = await connect();
  await begin(await connect(), "repeatable read");
  const add = () =>
    database.query("insert into everbeat.lane (queue, priority) select 'many', 0 from generate_series(1, 3000)");
  await add();
  await step();
  await add();
  const { rows } = await client.query("explain (analyze, buffers, format json) select everbeat.retire_lanes(0)");
  const [{ Plan: plan }] = rows[0]["QUERY PLAN"];
  expect(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]).toBeLessThan(40_000);
  expect((await client.query("select from everbeat.lane where queue = 'many'")).rowCount).toBe(1);
}, 60_000);
