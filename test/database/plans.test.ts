/** The claim's plan must not depend on statistics: here they are as wrong as they get, and the work per claim is counted. */
import { randomUUID } from "node:crypto";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { pagesTouched } from "../support/pages-touched.ts";

const { everbeat, database } = await openTestEverbeat();
const noop = defineTask({ name: "noop", run: (_input: unknown) => null });
const PENDING = 50_000;
const ENDED = 200_000;

const claimer = handClaimer(everbeat.database, ["noop"]);
const CLAIM = `select count(*) from everbeat.claim_tasks('${claimer.replicaId}', '{noop}', $1, $2, 100, 0, '{}', '{}', '{}')`;

describe("with statistics that say that ready is empty, and a large record", () => {
  const client = new pg.Client(database.url);
  beforeAll(async () => {
    await client.connect();
    await everbeat.enqueue(noop, 1);
    const [task] = await claimer.claim();
    await claimer.complete(task as never);
    await client.query("vacuum analyze everbeat.ready");
    await client.query("vacuum analyze everbeat.running");
    // Its looks would be counted with ours.
    await client.query(`do $$ declare t text; begin
      for t in select oid::regclass from pg_class where relnamespace = 'everbeat'::regnamespace and relkind = 'r' loop
        execute format('alter table %s set (autovacuum_enabled = off)', t);
      end loop; end $$`);
    await client.query(
      `insert into everbeat.task (id, name, queue, priority, run_at, input) select gen_random_uuid(), 'noop', 'default', 0, now(), '1' from generate_series(1, $1)`,
      [PENDING + ENDED],
    );
    await client.query(
      `insert into everbeat.ready (task_id, queue, priority, run_at, name) select id, queue, priority, run_at, name from everbeat.task where id not in (select task_id from everbeat.ended) limit ${PENDING}`,
    );
    await client.query(
      `insert into everbeat.ended (task_id, state, attempt, failures, crashes, ended_at)
       select id, 'completed', 1, 0, 0, now() from everbeat.task t where not exists (select from everbeat.ready r where r.task_id = t.id) on conflict do nothing`,
    );
  }, 120_000);
  afterAll(() => client.end());

  test("a claim of a hundred touches hundreds of pages, not the whole table", async () => {
    // Again and again, so that the cached plan has gone generic.
    for (let round = 0; round < 8; round++) expect(await pagesTouched(client, CLAIM, [null, null])).toBeLessThan(4_000);
  });

  test("neither do a finish, a start and a cancellation", async () => {
    const { rows } = await client.query(
      "select claim_id::text as claim, task_id as task, replica_id as replica from everbeat.running limit 100",
    );
    const outcomes = rows.map((row) => ({ ...row, claim: Number(row.claim), to: "completed", outcome: "completed" }));
    const claims = rows.map((row) => row.claim);
    const tasks = rows.map((row) => row.task);
    for (let round = 0; round < 8; round++) {
      expect(
        await pagesTouched(client, "select * from everbeat.end_claims($1::bigint[], $2::uuid[], $3::json)", [
          claims.slice(round * 10, round * 10 + 10),
          tasks.slice(round * 10, round * 10 + 10),
          JSON.stringify(outcomes.slice(round * 10, round * 10 + 10)),
        ]),
      ).toBeLessThan(1_000);
    }
    expect(
      await pagesTouched(client, "select * from everbeat.start_claims($1::bigint[], $2::uuid[])", [claims, tasks]),
    ).toBeLessThan(2_000);
    const { rows: pending } = await client.query("select task_id from everbeat.ready limit 10");
    expect(
      await pagesTouched(client, "select * from everbeat.cancel_tasks($1::uuid[], 0, null)", [
        pending.map((row) => row.task_id),
      ]),
    ).toBeLessThan(2_000);
  });

  test("a hundred thousand tasks that are not due are not walked over", async () => {
    await client.query(
      `insert into everbeat.ready (task_id, queue, priority, run_at, name) select gen_random_uuid(), 'later', 0, now() + interval '1 hour', 'noop' from generate_series(1, 20000)`,
    );
    await client.query("insert into everbeat.queue (name) values ('later') on conflict do nothing");
    await client.query("insert into everbeat.lane (queue, priority) values ('later', 0) on conflict do nothing");
    expect(await pagesTouched(client, CLAIM, ["{later}", "{NULL}"])).toBeLessThan(200);
  });

  test("of twenty thousand tasks behind one key, the next is let go without sorting them all", async () => {
    await client.query("vacuum analyze everbeat.parked");
    await client.query(
      `with put as (
         insert into everbeat.task (id, name, queue, priority, run_at, input, exclusive_key, exclusive_limit)
         select gen_random_uuid(), 'noop', 'default', 0, now(), '1', 'one', 1 from generate_series(1, 20000) returning *)
       insert into everbeat.parked (task_id, queue, priority, run_at, name, attempt, failures, crashes, exclusive_key)
       select id, queue, priority, run_at, name, 1, 0, 0, exclusive_key from put`,
    );
    for (let round = 0; round < 8; round++) {
      expect(await pagesTouched(client, "select everbeat.unpark($1)", [["one"]])).toBeLessThan(200);
    }
  });

  test("the next behind a key is claimed with the end of the last, without a walk over the thousands that were parked", async () => {
    const KEYED = 8_000;
    await everbeat.enqueueMany(
      noop,
      Array.from({ length: KEYED }, (_, n) => n),
      { options: { queue: "keyed", exclusiveKey: "two" } },
    );
    const waiting = async () => (await client.query("select from everbeat.ready where queue = 'keyed'")).rowCount ?? 0;
    while ((await waiting()) > 0) await client.query(CLAIM, ["{keyed}", "{NULL}"]);
    const owner = `'${claimer.replicaId}'`;
    for (let round = 0; round < 8; round++) {
      const next = `select * from everbeat.claim_tasks(${owner}, '{noop}', '{keyed}', '{NULL}', 1, 0, '{}', '{}', '{}', false,
        everbeat.end_claims(array(select claim_id from everbeat.running where exclusive_key = 'two'),
                            array(select task_id from everbeat.running where exclusive_key = 'two'), '[]', array[${owner}::uuid], true))`;
      expect(await pagesTouched(client, next)).toBeLessThan(150);
    }
    expect(
      (await client.query("select from everbeat.ended join everbeat.task on id = task_id where exclusive_key = 'two'"))
        .rowCount,
    ).toBe(8);
  });

  test.each([true, false])(
    "an enqueue looks up its lane, and does not read them all (fresh ids: %s)",
    async (fresh) => {
      await client.query(
        "insert into everbeat.lane (queue, priority) select 'lane-' || n, 0 from generate_series(1, 20000) n on conflict do nothing",
      );
      for (let round = 0; round < 8; round++) {
        const terms = { name: "noop", queue: "lane-7", priority: 0, ids: `{${randomUUID()}}` };
        const values = [JSON.stringify([terms]), "[[1]]", fresh];
        expect(await pagesTouched(client, "select everbeat.insert_tasks($1, $2, $3, true)", values)).toBeLessThan(100);
        const alone = [randomUUID(), "noop", "lane-7"];
        expect(
          await pagesTouched(client, "select everbeat.insert_task($1, $2, $3, 0::smallint, '1')", alone),
        ).toBeLessThan(100);
      }
    },
  );
});

test("a function that keeps to some plans is not compiled for what the others would cost", async () => {
  // Up to version 17 a scan that is turned off and used all the same counts as immensely dear, which compiling is thought to be worth.
  const dear = await database.query(
    `select proname from pg_proc where pronamespace = 'everbeat'::regnamespace
       and proconfig::text like '%enable\\_%=off%' and not 'jit=off' = any (proconfig)`,
  );
  expect(dear).toEqual([]);
});
