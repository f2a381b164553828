/** One row that cannot be claimed is set aside, with its reason, and everything else is claimed. */
import { randomUUID } from "node:crypto";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { AnyTask } from "../../src/task/define-task.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { newReplicaId } from "../../src/task/ids.ts";
import { putOnRecord } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const { everbeat, database } = await openTestEverbeat();

/** What the checks would refuse gets in all the same: by hand, by a fault, by an older version. */
beforeAll(async () => {
  await database.query(`do $$ declare c record; begin
    for c in select conrelid::regclass as of, conname as name from pg_constraint
             where contype = 'c' and conrelid in ('everbeat.task'::regclass, 'everbeat.queue'::regclass) loop
      execute format('alter table %s drop constraint %I', c.of, c.name);
    end loop; end $$`);
});

interface Scene {
  readonly task: AnyTask;
  readonly queue: string;
  readonly done: unknown[];
  readonly passedBy: string[];
  readonly put: (input: unknown, options?: object) => Promise<string>;
  readonly work: () => Promise<void>;
}

function scene(): Scene {
  const [name, queue] = [`n-${randomUUID()}`, `q-${randomUUID()}`];
  const done: unknown[] = [];
  const task = defineTask({ name, run: (input: unknown) => void done.push(input) });
  const passedBy: string[] = [];
  onTestFinished(everbeat.on("claim.passed-by", ({ what }) => passedBy.push(what)));
  return {
    ...{ task, queue, done, passedBy },
    put: (input, options) => everbeat.enqueue(task, input, { queue, ...options }),
    work: async () => {
      const worker = await everbeat.work([task], { queues: [queue], handleSignals: false, concurrency: 20 });
      onTestFinished(() => worker.stop({ now: true }));
    },
  };
}
const alerts = (kind: string, subject: string) =>
  database.query("select message, resolved_at from everbeat.alert where kind = $1 and subject = $2 order by id", [
    kind,
    subject,
  ]);

const keyed = () => ({ rateLimit: { key: randomUUID(), limit: 1, per: "1s" as const } });
/** Ways in which a task can be so that no claim can take it. */
const WRONG: [string, (id: string) => Promise<unknown>, RegExp][] = [
  [
    "a rate limit of zero",
    (id) => database.query("update everbeat.task set rate_limit = 0 where id = $1", [id]),
    /a rate of 0 in 1000 ms cannot be counted/,
  ],
  [
    "a rate over no time",
    (id) => database.query("update everbeat.task set rate_per_ms = 0 where id = $1", [id]),
    /a rate of 1 in 0 ms cannot be counted/,
  ],
  [
    "a rate over longer than time goes",
    (id) => database.query("update everbeat.task set rate_per_ms = 9223372036854775807 where id = $1", [id]),
    /out of range|cannot be counted/,
  ],
  [
    "an exclusive limit of zero",
    (id) => database.query("update everbeat.task set exclusive_key = 'k', exclusive_limit = 0 where id = $1", [id]),
    /an exclusive limit of 0 lets nothing run/,
  ],
  [
    "no record",
    (id) => database.query("delete from everbeat.task where id = $1", [id]),
    /record of task .* is missing/,
  ],
];

describe.each(WRONG)("a task with %s", (_, spoil, reason) => {
  test("fails with the reason, is told of once, and all others are run", async () => {
    const { task, put, work, done, passedBy } = scene();
    const ids: string[] = [];
    for (let n = 0; n < 12; n++) ids.push(await put(n, keyed()));
    const bad = [ids[3], ids[8]] as [string, string];
    for (const id of bad) await spoil(id);
    await work();
    await eventually(() => done.length, { until: (count) => count === 10, what: "the others", within: 20_000 });
    const others = Array.from({ length: 12 }, (__, n) => n).filter((n) => n !== 3 && n !== 8);
    expect([...done].sort((a, b) => Number(a) - Number(b))).toEqual(others);
    const ended = await database.query<{ error: { message: string } }>(
      "select state, error_code, error from everbeat.ended where task_id = any ($1::uuid[])",
      [bad],
    );
    expect(ended).toEqual(bad.map(() => expect.objectContaining({ state: "failed", error_code: "NOT_CLAIMABLE" })));
    for (const { error } of ended) expect(error.message).toMatch(reason);
    expect(await alerts("not-claimable", task.name)).toEqual([
      { message: expect.stringMatching(reason), resolved_at: null },
    ]);
    expect(passedBy.sort()).toEqual(bad.map((id) => `task ${id} (${task.name})`).sort());
  });
});

describe("a task that was set aside", () => {
  test("is explained, and runs when what was wrong was put right and it is retried", async () => {
    const { task, put, work, done } = scene();
    const id = await put("bad", keyed());
    await database.query("update everbeat.task set rate_limit = 0 where id = $1", [id]);
    await work();
    await eventually(async () => (await everbeat.tasks.show(id))?.state, { until: (state) => state === "failed" });
    expect(await everbeat.recovery.explain(id)).toMatchObject({
      because: "not-claimable",
      summary: expect.stringMatching(/set aside .* without having run: .*a rate of 0 in/),
      advice: [{ operation: "tasks.retry", input: { ids: [id] } }],
    });
    expect(await everbeat.tasks.show(id)).toMatchObject({ attempt: 0, error: { code: "NOT_CLAIMABLE" } });
    await database.query("update everbeat.task set rate_limit = 1 where id = $1", [id]);
    await everbeat.tasks.retry(id);
    await eventually(() => done.length === 1, { what: "the task to run" });
    expect(await alerts("not-claimable", task.name)).toEqual([
      { message: expect.any(String), resolved_at: expect.any(Date) },
    ]);
  });

  test("for want of its record stays as it is when it is retried, and runs once the record is back", async () => {
    const { task, put, work, done } = scene();
    const id = await put("lost", keyed());
    await database.query("create table kept as select * from everbeat.task where id = $1", [id]);
    onTestFinished(async () => void (await database.query("drop table kept")));
    await database.query("delete from everbeat.task where id = $1", [id]);
    await work();
    const ended = () => database.query("select state, error_code from everbeat.ended where task_id = $1", [id]);
    await eventually(ended, { until: (rows) => rows.length === 1, what: "it to be set aside" });
    for (const force of [false, true])
      expect(await everbeat.tasks.retry(id, { force })).toEqual([{ id, outcome: "unrecorded" }]);
    expect(await ended()).toEqual([{ state: "failed", error_code: "NOT_CLAIMABLE" }]);
    expect(await alerts("not-claimable", task.name)).toEqual([{ message: expect.any(String), resolved_at: null }]);
    await database.query("insert into everbeat.task select * from kept");
    expect(await everbeat.tasks.retry(id)).toEqual([{ id, outcome: "pending" }]);
    await eventually(() => done.length === 1, { what: "the task to run" });
  });

  test("and is running at the same time goes on running: only the row that is one too many goes", async () => {
    const { task, queue, put, work, done } = scene();
    const id = await put("twice");
    const owner = newReplicaId();
    await putOnRecord(everbeat.database, owner, [task.name]);
    await database.query(
      `insert into everbeat.running (claim_id, task_id, replica_id, state, name, queue, priority, run_at, gated, attempt, failures, crashes, claimed_at)
       select nextval('everbeat.claim_id'), $1, $4, 'claimed', $2, $3, 0, now(), false, 1, 0, 0, now()`,
      [id, task.name, queue, owner],
    );
    await put("other");
    await work();
    await eventually(() => done.length === 1, { what: "the other" });
    expect(done).toEqual(["other"]);
    expect(await database.query("select from everbeat.running where task_id = $1", [id])).toHaveLength(1);
    expect(await database.query("select from everbeat.ended where task_id = $1", [id])).toEqual([]);
  });
});

test("a queue whose settings cannot be used is paused, and says why; the others go on, and so does it once it is set anew", async () => {
  const bad = scene();
  const good = scene();
  await everbeat.queues.set(bad.queue, { rateLimit: { limit: 10, per: "1s" } });
  await database.query("update everbeat.queue set rate_limit = 0 where name = $1", [bad.queue]);
  const id = await bad.put("waits");
  await good.put("goes");
  const both = [bad.task, good.task];
  const worker = await everbeat.work(both, { queues: [bad.queue, good.queue], handleSignals: false });
  onTestFinished(() => worker.stop({ now: true }));
  await eventually(() => good.done.length === 1, { what: "the other queue" });
  const listed = async () => (await everbeat.queues.list()).find(({ name }) => name === bad.queue);
  await eventually(listed, { until: (queue) => queue?.isPaused === true, what: "the queue to be paused" });
  expect(await listed()).toMatchObject({ trouble: expect.stringMatching(/a rate of 0 in 1000 ms/) });
  expect(await everbeat.recovery.explain(id)).toMatchObject({ because: "queue-not-usable", isStuck: true });
  expect(await alerts("queue-not-usable", bad.queue)).toHaveLength(1);
  expect(bad.passedBy).toEqual([`queue "${bad.queue}"`]);
  await everbeat.queues.set(bad.queue, { rateLimit: null });
  await everbeat.queues.resume(bad.queue);
  await eventually(() => bad.done.length === 1, { what: "the task of the queue" });
  expect(await alerts("queue-not-usable", bad.queue)).toEqual([
    { message: expect.any(String), resolved_at: expect.any(Date) },
  ]);
});
