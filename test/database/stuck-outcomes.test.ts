/** An outcome that cannot be written, for whatever reason, keeps no other task from starting and ending, and is written once it can be. */
import { randomUUID } from "node:crypto";
import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const other = defineTask({ name: "other", run: async (n: number) => n });
const bad = defineTask({ name: "bad", run: async () => "done" });

async function openWorker(work: { concurrency: number } = { concurrency: 10 }) {
  const { everbeat, database } = await openTestEverbeat();
  const session = async () => {
    const client = new pg.Client(database.url);
    await client.connect();
    onTestFinished(() => client.end());
    return client;
  };
  const openAlerts = async (kind: string) =>
    (await everbeat.alerts.list({ open: true })).filter((alert) => alert.kind === kind);
  /** One after the other, so that each needs a round of its own. */
  const runOthers = async (count = 20) => {
    for (let n = 0; n < count; n++)
      expect(await everbeat.result(await everbeat.enqueue(other, n), { timeout: "10s" })).toBe(n);
  };
  return { everbeat, database, session, openAlerts, runOthers, work };
}

type Opened = Awaited<ReturnType<typeof openWorker>>;

/** Refuses every end of these tasks, as a trigger of the user's own might. */
async function refuseEnds({ database }: Opened, ids: readonly string[], code: string): Promise<() => Promise<unknown>> {
  await database.query(`
    create function public.refuse() returns trigger language plpgsql as $$
    begin raise exception 'not this one' using errcode = '${code}'; end $$`);
  const list = ids.map((id) => `'${id}'`).join(", ");
  await database.query(`
    create trigger refuse before insert on everbeat.ended for each row when (new.task_id in (${list})) execute function public.refuse()`);
  return () => database.query("drop trigger refuse on everbeat.ended");
}

describe("outcomes that the database refuses", () => {
  test.each([
    ["P0001", 1],
    ["P0001", 3],
    ["AU001", 1],
    ["54000", 2],
  ])(
    "with %s, %i of them: the others go on, and the refused are written as they were when they can be",
    async (code, count) => {
      const opened = await openWorker();
      const { everbeat, openAlerts, runOthers } = opened;
      const ids = await everbeat.enqueueMany(bad, new Array(count).fill(undefined));
      const allow = await refuseEnds(opened, ids, code);
      await everbeat.work([bad, other], { ...opened.work, handleSignals: false });
      await eventually(
        async () => (await everbeat.tasks.list({ state: "running", name: "bad" })).tasks.length === count,
      );
      await runOthers();
      await eventually(async () => (await openAlerts("outcome-stuck")).length === count);
      expect((await openAlerts("outcome-stuck"))[0]?.message).toContain("not this one");
      await allow();
      for (const id of ids) expect(await everbeat.result(id, { timeout: "10s" })).toBe("done");
      await eventually(async () => (await openAlerts("outcome-stuck")).length === 0);
    },
  );
});

test("outcomes of the same round as one that is refused for an unusual reason are written, and the database is not called away", async () => {
  const opened = await openWorker();
  const { everbeat } = opened;
  const ends: (() => void)[] = [];
  const together = defineTask({
    name: "together",
    run: (_: number) => new Promise<string>((resolve) => ends.push(() => resolve("done"))),
  });
  const lost: unknown[] = [];
  everbeat.on("database.lost", (event) => lost.push(event));
  const ids = await everbeat.enqueueMany(together, [1, 2, 3, 4, 5]);
  const allow = await refuseEnds(opened, ids.slice(0, 1), "0A000");
  await everbeat.work([together], { ...opened.work, handleSignals: false });
  await eventually(() => ends.length === 5);
  for (const end of ends) end();
  for (const id of ids.slice(1)) expect(await everbeat.result(id, { timeout: "10s" })).toBe("done");
  expect(lost).toEqual([]);
  await allow();
  expect(await everbeat.result(ids[0] as string, { timeout: "10s" })).toBe("done");
});

test("the alert about an outcome whose worker died first is resolved by a sweep, and those of others are not", async () => {
  const opened = await openWorker();
  const { everbeat, openAlerts, database } = opened;
  const waits = defineTask({ name: "waits", run: () => new Promise<void>(() => {}) });
  const id = await everbeat.enqueue(waits);
  await everbeat.work([waits], { ...opened.work, handleSignals: false });
  await eventually(async () => (await everbeat.tasks.show(id)).state === "running");
  const raise = (claim: string, task: string) =>
    database.query("insert into everbeat.alert (kind, part, subject, message) values ('outcome-stuck', $1, $2, '')", [
      ...[claim, `task ${task}`],
    ]);
  const [running] = await database.query<{ claim: string }>("select claim_id::text as claim from everbeat.running");
  await raise(String(running?.claim), id);
  await raise("1", randomUUID());
  await eventually(async () => (await openAlerts("outcome-stuck")).length === 1);
  expect((await openAlerts("outcome-stuck"))[0]?.subject).toBe(`task ${id}`);
});

describe("an outcome whose claim somebody has locked", () => {
  test("waits for that, and holds up no other", async () => {
    const opened = await openWorker();
    const { everbeat, session, runOthers, openAlerts } = opened;
    let release = () => {};
    const waits = defineTask({
      name: "waits",
      run: () => new Promise<string>((resolve) => (release = () => resolve("done"))),
    });
    await everbeat.work([waits, other], { ...opened.work, handleSignals: false });
    const id = await everbeat.enqueue(waits);
    await eventually(async () => (await everbeat.tasks.show(id)).state === "running");
    const client = await session();
    await client.query("begin");
    await client.query("select from everbeat.running where task_id = $1 for update", [id]);
    release();
    await runOthers();
    await eventually(async () => (await openAlerts("outcome-stuck")).length === 1);
    await client.query("rollback");
    expect(await everbeat.result(id, { timeout: "10s" })).toBe("done");
    await eventually(async () => (await openAlerts("outcome-stuck")).length === 0);
  });

  test("also where its own handler's transaction is what has locked it", async () => {
    const opened = await openWorker({ concurrency: 2 });
    const { everbeat, session, runOthers } = opened;
    const client = await session();
    const hangs = defineTask({
      name: "hangs",
      timeout: "300ms",
      async run(_: undefined, { claim }) {
        await client.query("begin");
        await claim.completeIn(client, "done");
        await client.query("set constraints all immediate");
        await new Promise(() => {});
      },
    });
    await everbeat.work([hangs, other], { ...opened.work, handleSignals: false, abortGrace: "100ms" });
    const id = await everbeat.enqueue(hangs);
    await eventually(async () => (await everbeat.tasks.show(id)).state === "running");
    await runOthers();
    await client.query("rollback");
    await expect(everbeat.result(id, { timeout: "10s" })).rejects.toMatchObject({
      error: { code: "COMPLETION_NOT_COMMITTED" },
    });
  });
});

test("many outcomes whose claims somebody has locked hold up no others of their round", async () => {
  const opened = await openWorker({ concurrency: 40 });
  const { everbeat, session } = opened;
  const ends: (() => void)[] = [];
  const together = defineTask({
    name: "together",
    run: (_: number) => new Promise<string>((resolve) => ends.push(() => resolve("done"))),
  });
  const ids = await everbeat.enqueueMany(
    together,
    Array.from({ length: 40 }, (_, n) => n),
  );
  await everbeat.work([together], { ...opened.work, handleSignals: false });
  await eventually(() => ends.length === 40);
  const [locked, free] = [ids.filter((_, n) => n % 2 === 0), ids.filter((_, n) => n % 2 === 1)];
  const client = await session();
  await client.query("begin");
  await client.query("select from everbeat.running where task_id = any ($1) for update", [locked]);
  for (const end of ends) end();
  // Each try of a locked one takes half a second: all of them together would take more than ten.
  const results = await Promise.all(free.map((id) => everbeat.result(id, { timeout: "8s" })));
  expect(results).toEqual(free.map(() => "done"));
  await client.query("rollback");
  for (const id of locked) expect(await everbeat.result(id, { timeout: "20s" })).toBe("done");
});

test("a report of progress that somebody has locked holds up the end of no task, and is written later", async () => {
  const opened = await openWorker();
  const { everbeat, session } = opened;
  let say = (_: number) => {};
  let end = () => {};
  const reports = defineTask({
    name: "reports",
    run: (_: undefined, { progress }) => {
      say = progress;
      progress(0.1);
      return new Promise<void>((resolve) => (end = resolve));
    },
  });
  const too = defineTask({
    name: "too",
    run: async (n: number, { progress }) => {
      progress(0.5);
      return n;
    },
  });
  await everbeat.work([reports, too], { ...opened.work, handleSignals: false });
  const id = await everbeat.enqueue(reports);
  const shareOf = async () =>
    (await opened.database.query<{ share: number }>("select share from everbeat.progress where task_id = $1", [id]))[0]
      ?.share;
  await eventually(async () => (await shareOf()) === 0.1);
  const client = await session();
  await client.query("begin");
  await client.query("select from everbeat.progress where task_id = $1 for update", [id]);
  say(0.3);
  const locked = new Promise((resolve) => everbeat.on("database.locked", resolve));
  await locked;
  for (let n = 0; n < 5; n++) expect(await everbeat.result(await everbeat.enqueue(too, n), { timeout: "8s" })).toBe(n);
  await client.query("rollback");
  await eventually(async () => (await shareOf()) === 0.3);
  end();
  await everbeat.result(id, { timeout: "10s" });
});

describe("an exclusive key whose lock somebody keeps", () => {
  test("keeps no task with that key from ending, and what waits for it is let go later", async () => {
    const opened = await openWorker();
    const { everbeat, session, runOthers } = opened;
    const ends: (() => void)[] = [];
    const keyed = defineTask({ name: "keyed", run: () => new Promise<void>((resolve) => ends.push(resolve)) });
    await everbeat.work([keyed, other], { ...opened.work, handleSignals: false });
    const options = { exclusiveKey: "k", exclusiveLimit: 2 };
    const ids = await everbeat.enqueueMany(keyed, [undefined, undefined, undefined], { options });
    await eventually(() => ends.length === 2);
    await eventually(async () => (await opened.database.query("select from everbeat.parked")).length === 1);
    const client = await session();
    await client.query("begin");
    await client.query("select pg_advisory_xact_lock(everbeat.gate_lock_id('exclusive', 'k'))");
    ends[0]?.();
    await eventually(async () => (await everbeat.tasks.list({ state: "completed", name: "keyed" })).tasks.length === 1);
    await runOthers();
    await client.query("rollback");
    await eventually(() => ends.length === 3, { within: 20_000 });
    for (const end of ends) end();
    for (const id of ids) await everbeat.result(id, { timeout: "10s" });
  });
});
