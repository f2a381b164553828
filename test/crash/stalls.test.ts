/** Tasks that are alive and do not get on: noticed whatever their heart says, and treated as their definition says. */
import { describe, expect, test, vi } from "vitest";
import type { Everbeat } from "../../src/everbeat.ts";
import { STALL_DOUBT } from "../../src/recovery/limits.ts";
import { endStalled, findStalled } from "../../src/sql/stalls.ts";
import { defineTask, type TaskOptions } from "../../src/task/define-task.ts";
import { openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { PATIENT, startWorker, task } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 120_000 });

const open = { recovery: PATIENT };

async function begin(definition: Partial<TaskOptions>, steps: unknown[]) {
  const database = await openCrashDatabase();
  // Long enough for what it reports first to be on record by then.
  const tasks = [{ handler: "script", stalledAfter: 3_000, ...definition }] as const;
  const worker = await startWorker({ url: database.url, open, tasks });
  const id = await database.everbeat.enqueue(task("script"), { steps });
  await worker.heard({ handler: "begun", taskId: id });
  return { database, everbeat: database.everbeat, worker, id };
}

const openAlerts = async (everbeat: Everbeat) =>
  (await everbeat.alerts.list({ open: true })).filter(({ kind }) => kind === "task-stalled");

describe("a task that makes no progress for too long", () => {
  test("raises one alert, which is resolved when it gets on again, and is left alone", async () => {
    const steps = [["phase", "download", { platform: "cdn" }], ["hold"], ["phase", "store"], ["pause", 300]];
    const { everbeat, worker, id } = await begin({}, steps);
    const stalled = await worker.heard({ event: "task.stalled", taskId: id });
    expect(stalled).toMatchObject({ action: "alerted", phase: "download", attempt: 1 });
    expect(await openAlerts(everbeat)).toMatchObject([
      {
        subject: id,
        message: expect.stringMatching(/script.*no progress for.*last phase was "download" \{"platform":"cdn"\}/),
      },
    ]);
    expect(await everbeat.recovery.explain(id)).toMatchObject({
      because: "stalled",
      isStuck: false,
      summary: expect.stringMatching(
        /^Its worker is alive, but it has made no progress for [\d.]+m?s \(stalledAfter is 3s\)/,
      ),
      next: 'Nothing but an alert (onStall: "alert"): it ends when its handler does.',
    });
    // Two more looks at least: still one alert, and one event.
    const swept = async () => (await everbeat.recovery.listening())?.sweptAt.getTime() ?? 0;
    const from = await swept();
    await eventually(async () => (await swept()) > from + 2_500, { within: 30_000 });
    expect(await openAlerts(everbeat)).toHaveLength(1);
    expect(worker.messages.filter(({ event }) => event === "task.stalled")).toHaveLength(1);

    worker.release();
    expect(await everbeat.result(id, { timeout: 20_000 })).toBe("done");
    await eventually(async () => (await openAlerts(everbeat)).length === 0);
    expect(await everbeat.tasks.show(id)).toMatchObject({
      attempts: [{ outcome: "completed", progress: { phase: "store" } }],
    });
  });

  test("fails with STALLED where its definition says so, and its handler is told", async () => {
    const steps = [["progress", { done: 3, total: 12 }, "page 3"], ["hold"]];
    const { everbeat, worker, id } = await begin({ onStall: "fail", retry: { attempts: 5 } }, steps);
    expect(await worker.heard({ event: "task.stalled", taskId: id })).toMatchObject({ action: "failed" });
    await worker.heard({ handler: "aborted", taskId: id, code: "CLAIM_LOST" });
    expect(await everbeat.tasks.show(id)).toMatchObject({
      state: "failed",
      failures: 1,
      error: {
        code: "STALLED",
        message: expect.stringMatching(/no progress for.*it was last at 25 % \(page 3\)/),
        share: 0.25,
      },
    });
    expect(await openAlerts(everbeat)).toEqual([]);
    expect((await everbeat.recovery.explain(id)).summary).toMatch(
      /^It failed [\d.]+m?s ago because it was stalled: It made no progress/,
    );
  });

  test("is tried again where its definition says so, and counts as failed once", async () => {
    const { everbeat, worker, id } = await begin({ onStall: "retry", retry: { attempts: 2, delay: 10 } }, [["hold"]]);
    expect(await worker.heard({ event: "task.stalled", taskId: id })).toMatchObject({ action: "retried", phase: null });
    expect(await everbeat.result(id, { timeout: 20_000 })).toBe("done");
    expect(await everbeat.tasks.show(id)).toMatchObject({
      failures: 1,
      attempts: [{ outcome: "failed", error: { code: "STALLED" } }, { outcome: "completed" }],
    });
  });

  test("is judged by others where it blocks its own loop, before it could say anything", async () => {
    const database = await openCrashDatabase();
    const tasks = [{ handler: "script", stalledAfter: 700, onStall: "fail" }] as const;
    const busy = await startWorker({ url: database.url, open, tasks });
    const watching = await startWorker({ url: database.url, open, tasks: [{ handler: "quick" }] });
    const id = await database.everbeat.enqueue(task("script"), { steps: [["wait", 15_000]] });
    await watching.heard({ event: "task.stalled", taskId: id }, 30_000);
    expect(await database.everbeat.tasks.show(id)).toMatchObject({ state: "failed", error: { code: "STALLED" } });
    // Its heart beat all the while.
    expect(await database.replica(busy.replicaId)).toMatchObject({ status: "online" });
    await busy.heard({ handler: "aborted", taskId: id, code: "CLAIM_LOST" }, 30_000);
  });

  test("is left alone while it gets on", async () => {
    const steps = Array.from({ length: 40 }, (_, step) => [
      ["progress", step / 40],
      ["pause", 250],
    ]).flat();
    const { everbeat, worker, id } = await begin({ stalledAfter: 6_000, onStall: "fail" }, steps);
    expect(await everbeat.result(id, { timeout: 60_000 })).toBe("done");
    expect(worker.messages.filter(({ event }) => event === "task.stalled")).toEqual([]);
  });
});

describe("the judgement of a stall", () => {
  test("counts only while signs could be written, and not by stamps of another clock", async () => {
    const { query } = await openCrashDatabase();
    const quiet = async (changed: string, started: string, hearing: string) => {
      const [row] = await query<{ ms: number }>(
        "select everbeat.quiet_ms(now() + $1::interval, now() + $2::interval, now() + $3::interval, now()) as ms",
        [changed, started, hearing],
      );
      return Math.round((row?.ms ?? 0) / 1_000);
    };
    expect(await quiet("-10 s", "-60 s", "-300 s")).toBe(10);
    expect(await quiet("-60 s", "-50 s", "-300 s")).toBe(50);
    expect(await quiet("-60 s", "-60 s", "-5 s")).toBe(5);
    expect(await quiet("20 s", "-60 s", "-300 s")).toBe(0);
    expect(await quiet("1 h", "-60 s", "-300 s")).toBe(60);
    expect(await quiet("1 h", "1 h", "-20 s")).toBe(20);
  });

  test("is looked at again in the moment of acting on it", async () => {
    const { everbeat } = await openCrashDatabase();
    const store = everbeat.database;
    let getOn = () => {};
    const slow = defineTask({
      ...{ name: "slow", stalledAfter: 300, onStall: "alert" },
      run: async (_: undefined, { phase, signal }) => {
        await new Promise<void>((resolve) => {
          getOn = resolve;
        });
        await phase("gets on after all");
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
      },
    });
    await everbeat.work([slow], { handleSignals: false });
    const id = await everbeat.enqueue(slow, undefined);
    const [found] = await eventually(() => findStalled(store, STALL_DOUBT), {
      until: (rows) => rows.length === 1,
    });
    if (!found) throw new Error("it must be there");
    getOn();
    await eventually(async () => (await everbeat.tasks.show(id)).attempts[0]?.progress?.phase != null);
    const ref = { claim: found.claimId, task: found.taskId, replica: found.replicaId };
    const outcome = { ...ref, to: "failed", outcome: "failed" } as const;
    expect(await endStalled(store, [{ outcome, stalledAfterMs: 60_000 }])).toEqual([]);
    expect((await everbeat.tasks.show(id)).state).toBe("running");
    await eventually(async () => (await endStalled(store, [{ outcome, stalledAfterMs: 300 }])).length === 1);
    expect((await everbeat.tasks.show(id)).state).toBe("failed");
  });
});
