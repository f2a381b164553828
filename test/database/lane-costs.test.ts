/** What a claim costs does not depend on how many queues were ever used, nor on what waits for workers that know it: pages are counted. */
import { randomUUID } from "node:crypto";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { pagesTouched } from "../support/pages-touched.ts";

const { everbeat, database } = await openTestEverbeat();
const noop = defineTask({ name: "noop", run: (_input: unknown) => null });
const claimer = handClaimer(everbeat.database, ["noop"]);
const client = new pg.Client(database.url);

/** A claim of at most a hundred in all queues, from where everything was seen. */
const claim = (seenUpTo: string | null = null) =>
  pagesTouched(
    client,
    `select * from everbeat.claim_tasks('${claimer.replicaId}', '{noop}', null, null, 100, 0, '{}', '{}', '{}', p_seen => $1)`,
    [seenUpTo],
  );
const outlook = () => pagesTouched(client, "select everbeat.next_due_ms('{noop}', null)");
const enqueue = () =>
  pagesTouched(client, "select everbeat.insert_task($1, 'noop', 'a', 0::smallint, '1')", [randomUUID()]);
const put = (count: number, { queue, name, runAt }: { queue: string; name: string; runAt: string }) =>
  client.query(
    `insert into everbeat.ready (task_id, queue, priority, run_at, name, input)
     select gen_random_uuid(), ${queue}, 0, ${runAt}, '${name}', '1' from generate_series(1, ${count}) n`,
  );
const addLanes = (count: number) =>
  client.query(`insert into everbeat.lane (queue, priority) select 'q-' || n, 0 from generate_series(1, ${count}) n`);

beforeAll(async () => {
  await client.connect();
  await client.query(`do $$ declare t text; begin
    for t in select oid::regclass from pg_class where relnamespace = 'everbeat'::regnamespace and relkind = 'r' loop
      execute format('alter table %s set (autovacuum_enabled = off)', t);
    end loop; end $$`);
  await claimer.claim();
});
afterAll(() => client.end());

describe("queues", () => {
  const costs = async () => {
    await enqueue();
    return { enqueue: await enqueue(), claim: await claim(), idle: await claim(), outlook: await outlook() };
  };

  test("of which ten thousand were used once cost what ten cost", async () => {
    await addLanes(10);
    await costs();
    const few = await costs();
    await addLanes(10_000);
    const step = async () => {
      await client.query("update everbeat.upkeep set lanes_next_at = '-infinity'");
      await client.query("select everbeat.retire_lanes(64)");
    };
    await eventually(() => step().then(() => client.query("select from everbeat.lane")), {
      until: ({ rowCount }) => rowCount !== null && rowCount <= 1,
      within: 60_000,
      what: "the lanes to be gone",
    });
    await client.query("vacuum everbeat.lane");
    await costs();
    const many = await costs();
    for (const what of ["enqueue", "claim", "idle", "outlook"] as const)
      expect(many[what], what).toBeLessThanOrEqual(few[what] * 1.5);
  }, 90_000);

  test("of which ten thousand are in use are visited as far as a claim needs", async () => {
    await addLanes(10_000);
    await put(10_000, { queue: "'q-' || n", name: "noop", runAt: "now()" });
    for (let round = 0; round < 8; round++) expect(await claim()).toBeLessThan(8_000);
    await client.query("delete from everbeat.ready; delete from everbeat.lane");
    for (const table of ["ready", "lane"]) await client.query(`vacuum everbeat.${table}`);
  }, 60_000);
});

describe("half a million tasks that this worker does not know", () => {
  beforeAll(async () => {
    await everbeat.enqueue(noop, 1, { queue: "a" });
    await put(500_000, { queue: "'a'", name: "unknown", runAt: "now() - interval '1 hour'" });
    await put(5_000, { queue: "'a'", name: "unknown", runAt: "now() + interval '1 hour'" });
  }, 60_000);

  test("are walked over once; later claims begin behind them", async () => {
    const { seenUpTo } = await claimer.look();
    if (!seenUpTo) throw new Error("everything was seen");
    for (let round = 0; round < 4; round++) {
      await everbeat.enqueue(noop, 1, { queue: "a" });
      expect(await claim(seenUpTo)).toBeLessThan(200);
      expect(await claim(seenUpTo)).toBeLessThan(50);
    }
  });

  test("are walked over no further than a thousand to say when to look again", async () => {
    expect(await outlook()).toBeLessThan(4_000);
  });
});
