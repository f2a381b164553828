/** Statements that are on their way when a worker dies or stops trusting itself: what was not begun by then never begins. */
import { describe, expect, test, vi } from "vitest";
import { type CrashDatabase, openCrashDatabase } from "../support/crash-database.ts";
import { type CuttingProxy, startCuttingProxy } from "../support/cutting-proxy.ts";
import { eventually } from "../support/eventually.ts";
import { PATIENT, startWorker, task, type WorkerProcess } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 90_000 });

const QUICK = [{ handler: "quick" }] as const;
const open = { recovery: PATIENT };

describe("a worker that is killed while it starts what it has claimed ahead", () => {
  const TASKS = [
    { handler: "wait" },
    { handler: "hold", name: "failing", onCrash: "fail" },
    { handler: "hold", name: "requeued", onCrash: "requeue" },
  ] as const;

  /** The start of this task is on its way, on the one side of the database or the other, and the worker is killed. */
  async function killedAtStart(name: "failing" | "requeued", hold: "holdBefore" | "holdReplyTo") {
    const database = await openCrashDatabase();
    const { everbeat } = database;
    const proxy = await startCuttingProxy(database.url);
    const reaper = await startWorker({ url: database.url, tasks: QUICK, open });
    const holding = proxy[hold]("start_claims(");
    // Its first claim takes both: the one runs, and the other is started after it.
    const waiting = await everbeat.enqueue(task("wait"), { ms: 100 });
    const id = await everbeat.enqueue(task(name), {});
    const first = await startWorker({ url: proxy.url, tasks: TASKS, open, work: { concurrency: 1, prefetch: 1 } });
    await holding;
    // Its end is written by another statement, which may come later: the task that starts is to be the only one in hand.
    await everbeat.result(waiting, { timeout: 20_000 });
    const { state } = await everbeat.tasks.show(id);
    await first.kill();
    await database.untilStatus(first.replicaId, "dead");
    await eventually(async () => (await everbeat.recovery.findStale()).length === 0);
    expect(first.messages.filter(({ handler, taskId }) => handler === "begun" && taskId === id)).toEqual([]);
    await reaper.heard({ event: "task.recovered", taskId: id });
    return { state, after: await everbeat.tasks.show(id), crashes: await database.crashesOf(id) };
  }

  test.each(["failing", "requeued"] as const)(
    "before that has reached the database: pending again, no attempt spent (%s)",
    async (name) => {
      const { state, after, crashes } = await killedAtStart(name, "holdBefore");
      expect(state).toBe("claimed");
      expect(after).toMatchObject({ state: "pending", attempt: 0, failures: 0, attempts: [] });
      expect(crashes).toBe(0);
    },
  );

  test("after it was committed: running, for all that others can know, and recovered as its onCrash says (fail)", async () => {
    const { state, after, crashes } = await killedAtStart("failing", "holdReplyTo");
    expect(state).toBe("running");
    expect(after).toMatchObject({ state: "failed", attempt: 1, failures: 0, error: { code: "WORKER_CRASHED" } });
    expect(crashes).toBe(1);
  });

  test("after it was committed: running, for all that others can know, and recovered as its onCrash says (requeue)", async () => {
    const { state, after, crashes } = await killedAtStart("requeued", "holdReplyTo");
    expect(state).toBe("running");
    expect(after).toMatchObject({ state: "pending", failures: 0, attempts: [{ attempt: 1, outcome: "crashed" }] });
    expect(crashes).toBe(1);
  });
});

describe("a reply that comes after its worker has fenced itself", () => {
  const TASKS = [{ handler: "hold", onCrash: "requeue" }, { handler: "wait" }] as const;

  interface Scene {
    readonly database: CrashDatabase;
    readonly proxy: CuttingProxy;
    readonly worker: WorkerProcess;
    readonly id: string;
  }

  /** Claimed, or started, under an id that has been given up since; the reply arrives when the worker is that far. */
  async function lateReplyTo(statement: "claim_tasks(" | "start_claims(", when: "fenced" | "rejoined"): Promise<Scene> {
    const database = await openCrashDatabase();
    const { everbeat } = database;
    const proxy = await startCuttingProxy(database.url);
    const work = statement === "claim_tasks(" ? { concurrency: 2 } : { concurrency: 1, prefetch: 1 };
    const holding = proxy.holdReplyTo(statement);
    // The first claim takes both: the one runs, and the other is started after it.
    if (statement === "start_claims(") await everbeat.enqueue(task("wait"), { ms: 100 });
    const id = await everbeat.enqueue(task("hold"), {});
    const worker = await startWorker({ url: proxy.url, tasks: TASKS, open, work });
    // Claims come and go; the one that matters has taken the task.
    let held = await holding;
    while ((await everbeat.tasks.show(id)).state !== "running") {
      const next = proxy.holdReplyTo(statement);
      held.deliver();
      held = await next;
    }
    proxy.swallowHearts(true);
    await worker.heard({ event: "replica.fenced" });
    if (when === "fenced") held.deliver();
    proxy.swallowHearts(false);
    await worker.heard({ event: "replica.rejoined" }, 30_000);
    if (when === "rejoined") held.deliver();
    return { database, proxy, worker, id };
  }

  test.each([
    ["claim_tasks(", "fenced"],
    ["claim_tasks(", "rejoined"],
    ["start_claims(", "fenced"],
    ["start_claims(", "rejoined"],
  ] as const)(
    "begins nothing: the task is given back uncharged and begun under the new id (%s, when %s)",
    async (statement, when) => {
      const { database, worker, id } = await lateReplyTo(statement, when);
      await worker.heard({ handler: "begun", taskId: id }, 30_000);
      const { replicaId } = await worker.heard({ event: "replica.rejoined" });
      expect(await database.everbeat.tasks.show(id)).toMatchObject({
        ...{ state: "running", attempt: 1, failures: 0, replicaId },
        attempts: [{ attempt: 1, replicaId }],
      });
      worker.release();
      expect(await database.everbeat.result(id, { timeout: 20_000 })).toBe("held");
      // Once, and not for the claim whose reply came too late.
      const begun = worker.messages.filter(({ handler, taskId }) => handler === "begun" && taskId === id);
      expect(begun).toMatchObject([{ attempt: 1 }]);
      expect(await database.crashesOf(id)).toBe(0);
      expect(await database.deaths()).toBe(0);
    },
  );
});
