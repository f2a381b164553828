/** Timeouts and cancels that really stop things: what does not stop when it is told to is ended, and nothing of it goes on. */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { EventName } from "../../src/events.ts";
import { openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { isAlive } from "../support/processes.ts";
import { startRunnerWorker, task } from "../support/runner-worker.ts";
import { startWorker } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 120_000 });
const work = { abortGrace: 300, runners: { threads: 1, processes: 1 } } as const;
const MILESTONES = new Set<EventName | undefined>(["task.started", "runner.ended"]);

describe.each(["thread", "process"] as const)("in a %s", (runIn) => {
  test.each([
    ["an endless loop", "spin", /blocked its runner's event loop/],
    ["a native-style hang (Atomics.wait)", "hang", /its runner('s event loop.* and its runner)? was ended/],
    ["a promise that never settles", "never", /did not stop when its signal fired, so its runner was ended .* later/],
  ])("%s ends by its timeout, and its error says what it took", async (_, handler, says) => {
    const { everbeat, url, expectSound } = await openCrashDatabase();
    const tasks = [
      { handler, runIn, timeout: 1_000 },
      { handler: "look", runIn },
    ];
    const worker = await startRunnerWorker({ url, tasks, work });
    const id = await everbeat.enqueue(task(handler), {});
    const { pid } = await worker.heard({ said: "begun", taskId: id });
    await expect(everbeat.result(id, { timeout: 30_000 })).rejects.toMatchObject({
      state: "failed",
      code: "TASK_TIMED_OUT",
      error: { message: expect.stringMatching(says) },
    });
    // It is over when its runner is, and not before: nothing of it is left when others learn of its end.
    expect(worker.messages.find((message) => message.event === "runner.ended")).toMatchObject({
      kind: runIn,
      because: "aborted",
      claimId: (await everbeat.tasks.show(id)).claimId,
    });
    if (runIn === "process") expect(isAlive(pid as number)).toBe(false);
    expect(worker.messages.some((message) => message.event === "handler.abandoned")).toBe(false);
    // The runner was its slot, and there is another.
    const next = await everbeat.result(await everbeat.enqueue(task("look"), {}), { timeout: 30_000 });
    expect(next).toMatchObject({ attempt: 1 });
    await expectSound();
  });

  test("one that obeys its signal is cancelled, and its runner goes on to the next", async () => {
    const { everbeat, url } = await openCrashDatabase();
    const tasks = [
      { handler: "obey", runIn },
      { handler: "look", runIn },
    ];
    const worker = await startRunnerWorker({ url, tasks, work: { ...work, abortGrace: 20_000 } });
    const id = await everbeat.enqueue(task("obey"), {});
    const begun = await worker.heard({ said: "begun", taskId: id });
    await everbeat.tasks.cancel(id, { reason: "not needed" });
    await expect(everbeat.result(id, { timeout: 30_000 })).rejects.toMatchObject({
      state: "cancelled",
      error: { message: "not needed" },
    });
    expect(await worker.heard({ said: "aborted", taskId: id })).toMatchObject({ code: "TASK_CANCELLED" });
    const next = await everbeat.result(await everbeat.enqueue(task("look"), {}), { timeout: 30_000 });
    expect(next).toMatchObject({ pid: begun.pid, threadId: begun["threadId"] });
  });

  test("one that was timed out runs again only when the first is over", async () => {
    const { everbeat, url } = await openCrashDatabase();
    const retry = { attempts: 2, backoff: "fixed", delay: 0 } as const;
    const tasks = [{ handler: "never", runIn, timeout: 700, retry }];
    const worker = await startRunnerWorker({ url, tasks, work: { ...work, runners: { threads: 2, processes: 2 } } });
    const id = await everbeat.enqueue(task("never"), {});
    await expect(everbeat.result(id, { timeout: 40_000 })).rejects.toMatchObject({ code: "TASK_TIMED_OUT" });
    // In the order in which they happened in the worker. A line of the second handler's would come later, when its runner is ready.
    const order = worker.messages.map(({ event }) => event).filter((event) => MILESTONES.has(event));
    expect(order).toEqual(["task.started", "runner.ended", "task.started", "runner.ended"]);
  });
});

describe("an inline task that ignores its signal", () => {
  test("is abandoned, reported, and its slot goes to others; what it does later counts for nothing", async () => {
    const { everbeat, url, count } = await openCrashDatabase();
    const worker = await startWorker({
      url,
      work: { concurrency: 1, abortGrace: 200 },
      tasks: [{ handler: "deaf", timeout: 300 }, { handler: "quick" }],
    });
    const id = await everbeat.enqueue(task("deaf"), {});
    await worker.heard({ handler: "begun", taskId: id });
    await expect(everbeat.result(id, { timeout: 20_000 })).rejects.toMatchObject({
      code: "TASK_TIMED_OUT",
      error: { message: expect.stringContaining("so it was abandoned") },
    });
    expect(await worker.heard({ event: "handler.abandoned", taskId: id })).toMatchObject({ name: "deaf" });
    await everbeat.result(await everbeat.enqueue(task("quick"), {}), { timeout: 20_000 });
    worker.release();
    await worker.heard({ handler: "returns", taskId: id });
    await everbeat.result(await everbeat.enqueue(task("quick"), {}), { timeout: 20_000 });
    expect(await everbeat.tasks.show(id)).toMatchObject({
      ...{ state: "failed", attempt: 1, error: { code: "TASK_TIMED_OUT" } },
      attempts: [{ outcome: "failed" }],
    });
    expect(await count("everbeat.late")).toBe(0);
  });
});

describe("a worker that stops", () => {
  test("lets what runs in its runners end, and leaves no process behind", async () => {
    const { everbeat, url, expectSound } = await openCrashDatabase();
    const tasks = [{ handler: "wait", runIn: "process" as const }];
    const worker = await startRunnerWorker({ url, tasks, work });
    const id = await everbeat.enqueue(task("wait"), { ms: 1_500 });
    const { pid } = await worker.heard({ said: "begun", taskId: id });
    worker.signal("SIGTERM");
    // As a service manager does, to all that belong to it: the runner must not take it for itself.
    process.kill(pid as number, "SIGTERM");
    process.kill(pid as number, "SIGINT");
    await worker.exited;
    expect(isAlive(pid as number)).toBe(false);
    expect(await everbeat.result(id, { timeout: 20_000 })).toBe("waited");
    expect((await everbeat.runners()).map(({ status, exit }) => [status, exit?.because])).toEqual([
      ["ended", "stopped"],
    ]);
    await expectSound();
  });

  test("has on record how each of its runners ended, also where the first of these cannot be written at once", async () => {
    const { everbeat, url, query } = await openCrashDatabase();
    const runners = { processes: 4 };
    const worker = await startRunnerWorker({ url, tasks: [{ handler: "wait", runIn: "process" }], work: { runners } });
    const ids = await everbeat.enqueueMany(
      task("wait"),
      Array.from({ length: 4 }, () => ({ ms: 1_500 })),
    );
    for (const id of ids) expect(await everbeat.result(id, { timeout: 20_000 })).toBe("waited");
    const locker = new pg.Client(url);
    await locker.connect();
    onTestFinished(() => locker.end());
    await locker.query("begin; lock table everbeat.runner in exclusive mode");
    worker.close();
    const waiting = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like '%note_runners%'";
    await eventually(async () => (await query(waiting)).length > 0, { what: "an end to be written" });
    const ended = () => worker.messages.filter(({ event }) => event === "runner.ended").length;
    await eventually(ended, { until: (count) => count === 4, what: "all of them to have ended" });
    await locker.query("commit");
    await worker.exited;
    const ends = (await everbeat.runners()).map(({ status, exit }) => [status, exit?.because]);
    expect(ends).toEqual(Array.from({ length: 4 }, () => ["ended", "stopped"]));
  });

  test("leaves a thread to itself that is stuck in native code, also where that thread has no task", async () => {
    const { everbeat, url } = await openCrashDatabase();
    const folder = mkdtempSync(join(tmpdir(), "everbeat-runner-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const file = join(folder, "stuck");
    const worker = await startRunnerWorker({ url, tasks: [{ handler: "leaveStuck", runIn: "thread" }], work });
    expect(await everbeat.result(await everbeat.enqueue(task("leaveStuck"), { file }), { timeout: 20_000 })).toBe(
      "left",
    );
    await eventually(() => existsSync(file), { what: "the thread to be stuck" });
    worker.close();
    expect(await worker.heard({ event: "runner.ended" })).toMatchObject({
      because: "stopped",
      message: expect.stringContaining("left to itself"),
    });
  });

  test("ends what does not stop in time; it is pending again, uncharged", async () => {
    const { everbeat, url, expectSound } = await openCrashDatabase();
    const tasks = [
      { handler: "spin", runIn: "process" as const },
      { handler: "never", runIn: "thread" as const },
    ];
    const worker = await startRunnerWorker({ url, tasks, work: { ...work, shutdownGrace: 200 } });
    const ids = [await everbeat.enqueue(task("spin"), {}), await everbeat.enqueue(task("never"), {})];
    const { pid } = await worker.heard({ said: "begun", taskId: ids[0] as string });
    await worker.heard({ said: "begun", taskId: ids[1] as string });
    worker.close();
    expect(await worker.exited).toEqual({ code: 0, signal: null });
    for (const id of ids) {
      expect(await everbeat.tasks.show(id)).toMatchObject({ state: "pending", failures: 0 });
    }
    expect(isAlive(pid as number)).toBe(false);
    await expectSound();
  });
});
