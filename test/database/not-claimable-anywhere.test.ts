/** A row that cannot be claimed is found wherever it is among others that are parked, put off or expired, and whatever holds its queue back. */
import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { describe, expect, onTestFinished, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { refuse } from "../support/refusing.ts";

const { everbeat, database } = await openTestEverbeat();
// What the checks would refuse gets in all the same: by hand, by a fault, by an older version.
await database.query(
  `alter table everbeat.task drop constraint task_rate_check, drop constraint task_exclusive_limit_check`,
);

function scene(concurrency = 20) {
  const id = randomUUID();
  const [name, queue, other] = [`n-${id}`, `q-${id}`, `o-${id}`];
  const done = new Set<unknown>();
  const task = defineTask({ name, run: (input: unknown) => void done.add(input) });
  return {
    ...{ name, queue, other, done },
    put: (inputs: readonly unknown[], options: object = {}) =>
      everbeat.enqueueMany(task, inputs, { options: { queue, ...options } }),
    async work() {
      const worker = await everbeat.work([task], { queues: [queue, other], handleSignals: false, concurrency });
      onTestFinished(() => worker.stop({ now: true }));
      return worker;
    },
    /** Somebody else runs a task with this key, and goes on doing so. */
    async take(exclusiveKey: string) {
      const holder = handClaimer(everbeat.database, [`holder-${id}`]);
      const options = JSON.stringify({ queue: `holders-${id}`, exclusiveKey });
      await database.query("select everbeat.enqueue($1, '1', $2)", [`holder-${id}`, options]);
      expect(await holder.claim()).toHaveLength(1);
    },
    alerts: async (kind: string, subject: string) =>
      database.query("select from everbeat.alert where kind = $1 and subject = $2 and resolved_at is null", [
        kind,
        subject,
      ]),
  };
}

const inputsOf = (kind: string, count: number) => Array.from({ length: count }, (_, n) => `${kind} ${n}`);
const loseRecord = (id: string | undefined) => database.query("delete from everbeat.task where id = $1", [id]);
const endOf = async (id: string | undefined) =>
  (await database.query("select error_code as code from everbeat.ended where task_id = $1", [id]))[0]?.["code"];
const isPutOff = async (id: string) =>
  (await database.query("select from everbeat.ready where task_id = $1 and run_at > now() + interval '1 minute'", [id]))
    .length > 0;
const until = (done: Set<unknown>, inputs: readonly unknown[]) =>
  eventually(() => inputs.filter((input) => !done.has(input)), {
    until: (missing) => missing.length === 0,
    within: 30_000,
    what: "the others to be done",
  });

test("one that comes after more than a claim takes, all of which it parks", async () => {
  const { name, put, take, done, work, alerts } = scene();
  await take(name);
  await put(inputsOf("parked", 155), { exclusiveKey: name });
  const [bad] = await put(["bad"], { exclusiveKey: `${name} 2` });
  await loseRecord(bad);
  await put(inputsOf("innocent", 5));
  await work();
  await until(done, inputsOf("innocent", 5));
  expect([await endOf(bad), await alerts("not-claimable", name)]).toEqual(["NOT_CLAIMABLE", [{}]]);
}, 60_000);

test("one in a queue that lets one run at a time, after one that is parked", async () => {
  const { name, queue, other, put, take, done, work, alerts } = scene();
  await everbeat.queues.set(queue, { concurrency: 1 });
  await take(name);
  await put(["parked"], { exclusiveKey: name });
  const [bad] = await put(["bad"], { exclusiveKey: `${name} 2` });
  await loseRecord(bad);
  await put(inputsOf("innocent", 3), { queue: other });
  await put(inputsOf("behind", 3));
  await work();
  await until(done, [...inputsOf("innocent", 3), ...inputsOf("behind", 3)]);
  expect([await endOf(bad), await alerts("not-claimable", name)]).toEqual(["NOT_CLAIMABLE", [{}]]);
}, 60_000);

describe("where all that is claimed first is refused by PostgreSQL itself", () => {
  test.each([
    { where: "of lower priority", count: 3, priority: 1 },
    { where: "behind more of them than are tried at once", count: 120, priority: 0 },
  ])(
    "one $where is run, and shows that they are to blame",
    async ({ count, priority }) => {
      const { name, put, done, work, alerts } = scene(3);
      const bad = await put(inputsOf("bad", count), { rateLimit: { key: name, limit: 1, per: "1h" } });
      await database.query("update everbeat.task set rate_per_ms = 9223372036854775807 where id = any ($1)", [bad]);
      await put(["innocent"], { priority });
      await work();
      await until(done, ["innocent"]);
      expect(await alerts("not-claimable", name)).toEqual([{}]);
    },
    60_000,
  );

  test.each(["their own", "another"])(
    "one of %s queue is run that is behind more parked ones than a claim comes to",
    async (whose) => {
      const { name, queue, other, put, take, done, work, alerts } = scene(1);
      await take(name);
      const bad = await put(inputsOf("bad", 3), { queue: other, rateLimit: { key: name, limit: 1, per: "1h" } });
      await database.query("update everbeat.task set rate_per_ms = 9223372036854775807 where id = any ($1)", [bad]);
      const place = { queue: whose === "another" ? queue : other };
      await put(inputsOf("parked", 200), { ...place, exclusiveKey: name });
      await put(["innocent"], place);
      await work();
      await until(done, ["innocent"]);
      expect(await alerts("not-claimable", name)).toEqual([{}]);
    },
    60_000,
  );
});

describe("a task that waits in two places", () => {
  /** Each place can be claimed from; both at once cannot. */
  async function twice(queue: string, other: string, put: ReturnType<typeof scene>["put"]) {
    const [id] = await put(["twice"]);
    await database.query(
      `insert into everbeat.ready (task_id, queue, priority, run_at, name)
       select task_id, $3, priority, run_at + interval '1 ms', name from everbeat.ready where task_id = $1 and queue = $2`,
      [id, queue, other],
    );
    await database.query("insert into everbeat.lane (queue, priority) values ($1, 0)", [other]);
    return id;
  }

  test.each(["one queue", "two queues"])(
    "of %s runs once; the others are claimed",
    async (where) => {
      const { name, queue, other, put, done, work, alerts } = scene();
      const id = await twice(queue, where === "one queue" ? queue : other, put);
      await put(inputsOf("innocent", 5));
      await put(inputsOf("elsewhere", 5), { queue: other });
      await work();
      await until(done, [...inputsOf("innocent", 5), ...inputsOf("elsewhere", 5), "twice"]);
      await eventually(async () => (await everbeat.tasks.show(id as string)).state, {
        until: (state) => state === "completed",
      });
      expect(await database.query("select from everbeat.ready where name = $1", [name])).toEqual([]);
      expect(await alerts("not-claimable", name)).toHaveLength(1);
    },
    60_000,
  );
});

test("one whose end the database refuses is put off, and told of", async () => {
  const { name, queue, put, done, work, alerts } = scene();
  const [bad] = await put(["bad"], { expiresIn: "1h" });
  await database.query("update everbeat.ready set expires_at = now() - interval '1 minute' where task_id = $1", [bad]);
  await refuse(database, "ended", `new.task_id = '${bad}'`);
  await put(inputsOf("innocent", 5));
  await work();
  await until(done, inputsOf("innocent", 5));
  // A claim passes the row by while upkeep, which expires it too, has it locked.
  const places = () =>
    database.query("select run_at > now() + interval '1 minute' as later from everbeat.ready where queue = $1", [
      queue,
    ]);
  await eventually(places, { until: ([place]) => place?.["later"] === true, what: "the row to be put off" });
  expect(await places()).toHaveLength(1);
  expect(await alerts("not-claimable", name)).toHaveLength(1);
}, 60_000);

test("rows that cannot even be deleted are put off, also where they are two rows of one task", async () => {
  const { queue, put } = scene();
  const [id] = await put(["bad"]);
  const second = `insert into everbeat.ready (task_id, queue, priority, run_at, name)
    select task_id, queue, priority, run_at + interval '1 ms', name from everbeat.ready where task_id = $1`;
  await database.query(second, [id]);
  await database.query(
    "create function public.keep_row() returns trigger language plpgsql as $$ begin raise exception 'this row stays'; end $$",
  );
  onTestFinished(async () => void (await database.query("drop function public.keep_row cascade")));
  await database.query(
    `create trigger keep_row before delete on everbeat.ready for each row when (old.task_id = '${id}') execute function public.keep_row()`,
  );
  const rows = "everbeat.ready r where queue = $1 order by input is null";
  const aside = await database.query(
    `select everbeat.set_aside(b, false) from (select array_agg(row(r, 'bad', 'P0001')::everbeat.bad_row) as all from (select * from ${rows}) r) f, unnest(f.all) b`,
    [queue],
  );
  expect(aside).toHaveLength(2);
  const places = await database.query(
    `select run_at > now() + interval '1 minute' as later, input is null as moved from ${rows}`,
    [queue],
  );
  expect(places).toEqual([
    { later: true, moved: false },
    { later: true, moved: true },
  ]);
});

test("a queue in which every claim fails, and no row by itself, is paused and says why; others are claimed", async () => {
  const { queue, other, put, done, work, alerts } = scene();
  const [id] = await put(inputsOf("later", 5));
  await put(inputsOf("innocent", 5), { queue: other });
  await database.query(`create function public.refuse_many() returns trigger language plpgsql as $$ begin
    if (select count(*) from fresh where queue = '${queue}') > 3 then raise exception 'these are too many'; end if; return null; end $$`);
  await database.query(
    "create trigger refuse_many after insert on everbeat.running referencing new table as fresh for each statement execute function public.refuse_many()",
  );
  await work();
  await until(done, inputsOf("innocent", 5));
  await eventually(() => alerts("queue-not-usable", queue), { until: (open) => open.length === 1, within: 30_000 });
  expect(await everbeat.recovery.explain(id as string)).toMatchObject({
    because: "queue-not-usable",
    summary: expect.stringMatching(/was paused because every claim that came to it failed: these are too many/),
  });
  await database.query("drop function public.refuse_many cascade");
  await everbeat.queues.resume(queue);
  await until(done, inputsOf("later", 5));
  expect(await alerts("queue-not-usable", queue)).toEqual([]);
}, 60_000);

/** What one task is, among others. */
type Kind =
  | "plain"
  | "keyed"
  | "parked"
  | "deferred"
  | "expired"
  | "no record"
  | "no limit"
  | "no rate"
  | "endless rate";
const BAD: readonly Kind[] = ["no record", "no limit", "no rate", "endless rate"];
const FATES: readonly unknown[] = ["NOT_CLAIMABLE", "PUT OFF", "PAUSED", "STAYS"];
const WAITS: readonly Kind[] = ["parked", "deferred", "expired"];

const arrangements = fc.record({
  concurrency: fc.constantFrom(1, 3, 10),
  workers: fc.constantFrom(1, 1, 2),
  limits: fc.constantFrom({}, { concurrency: 1 }, { concurrency: 2 }, { rateLimit: { limit: 100, per: "1s" } }),
  kinds: fc.array(
    fc.record({
      kind: fc.oneof(
        { weight: 3, arbitrary: fc.constantFrom<Kind>("plain", "keyed") },
        { weight: 5, arbitrary: fc.constantFrom(...WAITS) },
        { weight: 1, arbitrary: fc.constantFrom(...BAD) },
      ),
      times: fc.oneof(fc.constant(1), fc.integer({ min: 10, max: 60 })),
      isElsewhere: fc.boolean(),
      priority: fc.constantFrom(0, 0, 1),
    }),
    { minLength: 3, maxLength: 12 },
  ),
});

test("wherever bad ones are among others, and however their queue is limited, all others are run and they are set aside", async () => {
  await fc.assert(
    fc.asyncProperty(arrangements, async ({ concurrency, workers, limits, kinds }) => {
      const { name, queue, other, put, take, done, work, alerts } = scene(concurrency);
      await everbeat.queues.set(queue, limits as never);
      await take(name);
      const spent = { key: name, limit: 1, per: "1h" };
      await database.query("select everbeat.take_rate($1, 1, 3600000, 1)", [`key/${name}`]);
      const bad: { id: string; where: string; isOurs: boolean }[] = [];
      const innocent: string[] = [];
      for (const [place, { kind, times, isElsewhere, priority }] of kinds.entries()) {
        const where = { queue: isElsewhere ? other : queue, priority };
        const inputs = inputsOf(`${place} ${kind}`, BAD.includes(kind) ? Math.min(times, 3) : times);
        const options: Record<Kind, object> = {
          ...{ plain: {}, keyed: { exclusiveKey: `${name} ${place}`, exclusiveLimit: 100 } },
          ...{ parked: { exclusiveKey: name }, deferred: { rateLimit: spent }, expired: { expiresIn: "1h" } },
          ...{ "no record": { exclusiveKey: `${name} ${place}` }, "no limit": { exclusiveKey: `${name} ${place}` } },
          ...{
            "no rate": { rateLimit: { ...spent, key: `${place}` } },
            "endless rate": { rateLimit: { ...spent, key: `${place}` } },
          },
        };
        const ids = await put(inputs, { ...where, ...options[kind] });
        const change: Partial<Record<Kind, string>> = {
          "no record": "delete from everbeat.task where id = any ($1)",
          "no limit": "update everbeat.task set exclusive_limit = 0 where id = any ($1)",
          "no rate": "update everbeat.task set rate_limit = 0 where id = any ($1)",
          "endless rate": "update everbeat.task set rate_per_ms = 9223372036854775807 where id = any ($1)",
          expired: "update everbeat.ready set expires_at = now() - interval '1 minute' where task_id = any ($1)",
        };
        const text = change[kind];
        if (text) await database.query(text, [ids]);
        if (BAD.includes(kind))
          bad.push(...ids.map((id) => ({ id, where: where.queue, isOurs: kind !== "endless rate" })));
        if (kind === "plain" || kind === "keyed") innocent.push(...inputs);
      }
      const working = await Promise.all(Array.from({ length: workers }, work));
      await until(done, innocent);
      // Those that PostgreSQL refuses, and not we ourselves, stay where nothing else is left to be claimed. More than five of a queue do not fail: they are
      // put off, or their queue is paused where nothing else is left in it. In each case there is an alert.
      const fate = async ({ id, where, isOurs }: (typeof bad)[number]) => {
        const end = await endOf(id);
        if (end || isOurs) return end;
        const isMany = bad.filter((other) => !other.isOurs && other.where === where).length > 5;
        if (isMany && (await isPutOff(id))) return "PUT OFF";
        if (isMany && (await alerts("queue-not-usable", where)).length > 0) return "PAUSED";
        return (await alerts("claims-failing", where)).length > 0 ? "STAYS" : undefined;
      };
      const fates = await eventually(() => Promise.all(bad.map(fate)), {
        until: (all) => all.every((one) => FATES.includes(one)),
        within: 30_000,
        what: "the bad ones to be set aside",
      });
      const isSetAside = fates.some((one) => one === "NOT_CLAIMABLE" || one === "PUT OFF");
      expect(await alerts("not-claimable", name)).toHaveLength(isSetAside ? 1 : 0);
      if (!fates.includes("PAUSED")) expect(await alerts("queue-not-usable", queue)).toEqual([]);
      expect(done.size).toBe(innocent.length);
      await Promise.all(working.map((worker) => worker.stop({ now: true })));
    }),
    { numRuns: Number(process.env["EVERBEAT_CLAIM_RUNS"] ?? 8), endOnFailure: true },
  );
}, 300_000);
