/** Connections that break exactly between what the server did and the reply to it. */
import { describe, expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { holding, openCrashDatabase, openThrough } from "../support/crash-database.ts";
import { startCuttingProxy } from "../support/cutting-proxy.ts";
import { eventually } from "../support/eventually.ts";
import { startWorker, task, type WorkerProcessOptions } from "../support/worker-process.ts";

const note = defineTask({ name: "note", run: async (_input: { ms?: number }) => {} });
const FORWARD = ["outcome.repeated", "claim.adopted", "claim.lost", "database.lost", "database.back"] as const;

function workerOptions(url: string, work: WorkerProcessOptions["work"] = {}): WorkerProcessOptions {
  return { url, work: { pollInterval: 200, ...work }, tasks: [{ handler: "note" }], forward: FORWARD };
}

describe("a reply that is lost", () => {
  test("after a finish: the outcome is recognised as written, and the worker goes on", async () => {
    const database = await openCrashDatabase();
    const proxy = await startCuttingProxy(database.url);
    const worker = await startWorker(workerOptions(proxy.url));
    const cut = proxy.cutReplyTo("end_claims(");
    const id = await database.everbeat.enqueue(note, {});
    await cut;
    expect(await worker.heard({ event: "outcome.repeated" })).toMatchObject({ taskId: id });
    await database.everbeat.result(await database.everbeat.enqueue(note, {}), { timeout: 10_000 });
    expect(await database.everbeat.tasks.show(id)).toMatchObject({ state: "completed", attempt: 1, late: [] });
    expect(await database.count(`effect where task_id = '${id}'`)).toBe(1);
    await database.expectSound();
  });

  test("after a claim that took tasks: each is adopted once", async () => {
    const database = await openCrashDatabase();
    const proxy = await startCuttingProxy(database.url);
    const ids = await database.everbeat.enqueueMany(note, [{}, {}, {}]);
    // The first claim of a worker finds them all.
    const cut = proxy.cutReplyTo("claim_tasks(");
    const worker = await startWorker(workerOptions(proxy.url));
    await cut;
    for (const id of ids) {
      await database.everbeat.result(id, { timeout: 10_000 });
      expect(await worker.heard({ event: "claim.adopted", taskId: id })).toBeDefined();
    }
    expect(await database.count("effect")).toBe(3);
    await database.expectSound();
  });

  test("after a start of tasks that were claimed ahead: they are run, once", async () => {
    const database = await openCrashDatabase();
    const proxy = await startCuttingProxy(database.url);
    const ids = await database.everbeat.enqueueMany(
      note,
      Array.from({ length: 8 }, () => ({ ms: 20 })),
    );
    const cut = proxy.cutReplyTo("start_claims(");
    const worker = await startWorker(workerOptions(proxy.url, { concurrency: 2, prefetch: 4 }));
    await cut;
    for (const id of ids) await database.everbeat.result(id, { timeout: 10_000 });
    expect(await worker.heard({ event: "claim.adopted" })).toBeDefined();
    expect(worker.messages.filter((message) => message.event === "claim.lost")).toEqual([]);
    expect(await database.count("effect")).toBe(8);
    await database.expectSound();
  });

  test.each(["cutReplyTo", "cutBefore"] as const)("to giving tasks back (%s): none stays behind", async (cutHow) => {
    const database = await openCrashDatabase();
    const proxy = await startCuttingProxy(database.url);
    const held = await database.everbeat.enqueue(task("hold"), {});
    const ids = await database.everbeat.enqueueMany(note, [{}, {}, {}]);
    const cut = proxy[cutHow]("release_claims(");
    // Whoever is asleep is told of what is given back, and so is everybody else: also the one that gave it back.
    await startWorker({ ...workerOptions(database.url), tasks: [{ handler: "quick" }] });
    await eventually(() => database.count("everbeat.bell where armed"), { until: (n) => n === 1, within: 30_000 });
    // The first runs for longer than the others, claimed ahead, are kept.
    const worker = await startWorker({
      ...workerOptions(proxy.url, { concurrency: 1, prefetch: 3 }),
      tasks: [{ handler: "note" }, { handler: "hold" }],
    });
    await cut;
    await eventually(() => database.count("everbeat.ready"), { until: (n) => n === 3, within: 30_000 });
    // And not claimed ahead again at once by the one that has no slot for them.
    const looks = () => proxy.asked("own_claims(");
    const before = looks();
    await eventually(() => looks() > before + 4, { within: 30_000 });
    expect(await database.count("everbeat.ready")).toBe(3);
    const other = await startWorker(workerOptions(database.url, { concurrency: 3 }));
    const byOther = `everbeat.ended where replica_id = '${other.replicaId}'`;
    await eventually(() => database.count(byOther), { until: (n) => n === 3, within: 30_000 });
    worker.release();
    for (const id of [held, ...ids]) await database.everbeat.result(id, { timeout: 15_000 });
    expect(await database.count("effect")).toBe(3);
    await database.expectSound();
  });

  test("after an enqueue: the call succeeds, and there is one task", async () => {
    const database = await openCrashDatabase();
    const proxy = await startCuttingProxy(database.url);
    const through = await openThrough(proxy.url);
    const cut = proxy.cutReplyTo("insert_task_promptly(");
    const id = await through.enqueue(note, {});
    await cut;
    const cutAgain = proxy.cutReplyTo("enqueue_keyed(");
    const keyed = await through.enqueue(note, {}, { uniqueKey: "a" });
    await cutAgain;
    const { tasks } = await database.everbeat.tasks.list();
    expect(tasks.map((task) => task.id)).toEqual([keyed, id]);
    await database.expectSound();
  });

  test("after the commit of a transaction that completed its task: it has completed", async () => {
    const database = await openCrashDatabase();
    const completing = task("completeIn");
    const proxy = await startCuttingProxy(database.url);
    const worker = await startWorker({
      url: proxy.url,
      work: { pollInterval: 200 },
      tasks: [{ handler: "completeIn" }],
      forward: ["task.ended", "claim.lost"],
    });
    const cut = proxy.cutReplyTo("commit");
    const id = await database.everbeat.enqueue(completing, {});
    await cut;
    expect(await worker.heard({ event: "task.ended", taskId: id })).toMatchObject({ outcome: "completed" });
    expect(await database.everbeat.tasks.show(id)).toMatchObject({ state: "completed", late: [] });
    expect(await database.count("effect")).toBe(1);
    await database.expectSound();
  });
});

describe("a statement that the server is still carrying out when its connection has gone", () => {
  test("a claim: its tasks are found after it has been committed", async () => {
    const database = await openCrashDatabase();
    // A claim waits for no row of ours for long. But a trigger of a user's may make it wait for as long as it likes.
    await database.query(
      `create function public.wait() returns trigger language plpgsql
       as $$ begin perform pg_advisory_xact_lock_shared(1); return new; end $$`,
    );
    await database.query(
      "create trigger wait before insert on everbeat.running for each row execute function public.wait()",
    );
    const proxy = await startCuttingProxy(database.url);
    const worker = await startWorker(workerOptions(proxy.url));
    // Idle, so that its next claim is the one that the task below wakes it for.
    await eventually(() => database.count("everbeat.bell where armed"), { until: (armed) => armed === 1 });
    const lock = await holding(database.url, "select pg_advisory_xact_lock(1)");
    const cut = proxy.cutWhileServed("claim_tasks(");
    const untilAsked = async (text: string) => {
      const before = proxy.asked(text);
      await eventually(() => proxy.asked(text) > before, { what: text, within: 30_000 });
    };
    const looking = untilAsked("adopt_claims(");
    const id = await database.everbeat.enqueue(note, {});
    await cut;
    await worker.heard({ event: "database.lost" });
    // It looks for its own, in vain, and claims again: the server has not come to the end of the first claim.
    await looking;
    await untilAsked("claim_tasks(");
    const waiting =
      "pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%claim_tasks(%'";
    expect(await database.count(waiting)).toBe(1);
    expect(await database.count("everbeat.running")).toBe(0);
    await lock.release();
    await database.everbeat.result(id, { timeout: 30_000 });
    expect(await worker.heard({ event: "claim.adopted" })).toMatchObject({ taskId: id });
    expect(await database.count("effect")).toBe(1);
    await database.expectSound();
  });

  test("a start: its tasks run, once", async () => {
    const database = await openCrashDatabase();
    const proxy = await startCuttingProxy(database.url);
    const ids = await database.everbeat.enqueueMany(note, [{ ms: 100 }, { ms: 20 }, { ms: 20 }]);
    const starting = proxy.holdBefore("start_claims(");
    const worker = await startWorker(workerOptions(proxy.url, { concurrency: 1, prefetch: 2 }));
    const start = await starting;
    const lock = await holding(database.url, "select from everbeat.running where state = 'claimed' for update");
    start.cutWhileServed();
    await worker.heard({ event: "claim.adopted" });
    await lock.release();
    for (const id of ids) await database.everbeat.result(id, { timeout: 10_000 });
    expect(await database.count("effect")).toBe(3);
    await database.expectSound();
  });
});
