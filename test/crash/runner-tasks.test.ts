/** The same task inline, in a thread and in a process: the same input, context, result and errors. */
import { AsyncLocalStorage } from "node:async_hooks";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { Everbeat } from "../../src/everbeat.ts";
import { type BatchItem, defineBatchTask, defineTask } from "../../src/task/define-task.ts";
import type { TaskId } from "../../src/task/ids.ts";
import { openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { type RunnerTask, startRunnerWorker, task } from "../support/runner-worker.ts";

vi.setConfig({ testTimeout: 120_000 });
const result = { timeout: 30_000 };

describe.each(["thread", "process"] as const)("a task in a %s", (runIn) => {
  test("is given what it would be given inline, and its result comes back", async () => {
    const { everbeat, url, expectSound } = await openCrashDatabase();
    const worker = await startRunnerWorker({ url, tasks: [{ handler: "look", runIn }] });
    const id = await everbeat.enqueue(task("look"), { deep: [1, { zero: "\0" }] }, { metadata: { from: "test" } });
    const looked = (await everbeat.result(id, result)) as Record<string, unknown>;
    const shown = await everbeat.tasks.show(id);
    expect(looked).toMatchObject({
      ...{ taskId: id, attempt: 1, claimId: shown.claimId, metadata: { from: "test" } },
      input: { deep: [1, { zero: "\0" }] },
      enqueuedAt: shown.createdAt.toISOString(),
    });
    expect(looked["pid"] === worker.pid).toBe(runIn === "thread");
    expect(looked["threadId"] === 0).toBe(runIn === "process");
    await expectSound();
  });

  test("whose input cannot be handed over fails, and its runner goes on with the next", async () => {
    const { everbeat, url, query, expectSound } = await openCrashDatabase();
    const ids = await everbeat.enqueueMany(
      task("look"),
      [1, 2, 3].map((n) => ({ n, long: "x".repeat(300) })),
    );
    // Deeper than anything that can be enqueued.
    await query(
      "update everbeat.task set input = (repeat('[', 20000) || repeat(']', 20000))::json where id = any ($1)",
      [ids.slice(0, 2)],
    );
    await startRunnerWorker({
      ...{ url, tasks: [{ handler: "look", runIn }] },
      work: { runners: { threads: 1, processes: 1 }, concurrency: 3 },
    });
    expect(await everbeat.result(ids[2] as TaskId, result)).toMatchObject({ input: { n: 3 } });
    for (const id of ids.slice(0, 2)) await expect(everbeat.result(id, result)).rejects.toThrow(/nested|call stack/);
    await expectSound();
  });

  test("fails where it returns or reports what is nested too deeply, and its runner goes on", async () => {
    const { everbeat, url, expectSound } = await openCrashDatabase();
    const tasks = [
      { handler: "nest", runIn },
      { handler: "look", runIn },
    ];
    await startRunnerWorker({ url, tasks, work: { runners: { threads: 1, processes: 1 } } });
    for (const where of ["result", "phase"]) {
      const id = await everbeat.enqueue(task("nest"), { where });
      await expect(everbeat.result(id, result)).rejects.toThrow(/nested more than 1,000 levels deep/);
    }
    const logged = await everbeat.enqueue(task("nest"), { where: "log" });
    expect(await everbeat.result(logged, result)).toBe("done");
    expect(await everbeat.result(await everbeat.enqueue(task("look"), { n: 4 }), result)).toMatchObject({
      input: { n: 4 },
    });
    await expectSound();
  });

  test("says how it gets on as inline: its last word is on record before its end", async () => {
    const { everbeat, url } = await openCrashDatabase();
    await startRunnerWorker({ url, tasks: [{ handler: "report", runIn }] });
    const id = await everbeat.enqueue(task("report"), {});
    await everbeat.result(id, result).catch(() => {});
    expect((await everbeat.tasks.show(id)).attempts).toMatchObject([
      {
        outcome: "failed",
        progress: {
          ...{ phase: "counting", details: { to: 3 }, share: 1, done: 3, total: 3, note: "number 3" },
          log: [{ level: "info", text: "counted" }],
        },
      },
    ]);
  });

  test("fails with what its handler threw, and is snoozed, retried or not, as inline", async () => {
    const { everbeat, url, expectSound } = await openCrashDatabase();
    const retry = { attempts: 3, delay: 0, jitter: 0 };
    const tasks: RunnerTask[] = [
      { handler: "throwOdd", runIn, retry: { attempts: 2, delay: 0, jitter: 0 } },
      { handler: "throwPointless", runIn, retry },
      { handler: "returnMap", runIn, retry },
      { handler: "snoozeOnce", runIn },
      { handler: "rejectUnawaited", runIn },
    ];
    const worker = await startRunnerWorker({ url, tasks, work: { runners: { threads: 1, processes: 1 } } });
    const endingOf = async (name: string) => {
      const id = await everbeat.enqueue(task(name), {});
      const ending = await everbeat.result(id, result).catch((error: { error: unknown }) => error.error);
      return { ending, attempt: (await everbeat.tasks.show(id)).attempt };
    };
    expect(await endingOf("throwOdd")).toMatchObject({
      ending: { name: "Odd", code: "E_ODD", message: "odd", cause: { message: "the cause of it" } },
      attempt: 2,
    });
    const { ending } = (await endingOf("throwOdd")) as { ending: { stack: string } };
    expect(ending.stack).toContain("runner-tasks.js");
    expect(await endingOf("throwPointless")).toMatchObject({ ending: { message: "no use" }, attempt: 1 });
    expect(await endingOf("returnMap")).toMatchObject({ ending: { code: "RESULT_NOT_STORABLE" }, attempt: 1 });
    expect(await endingOf("snoozeOnce")).toEqual({ ending: 2, attempt: 2 });
    expect(await endingOf("rejectUnawaited")).toMatchObject({ ending: { message: "nobody awaits it" }, attempt: 1 });
    // What that handler had begun may still go on in its runner, so nobody else is given it.
    expect(await worker.heard({ event: "runner.ended" })).toMatchObject({ kind: runIn, because: "recycled" });
    await expectSound();
  });

  test("completes in its own transaction, also when its runner dies before it returns", async () => {
    const { everbeat, url, count, expectSound } = await openCrashDatabase();
    await startRunnerWorker({
      url,
      tasks: [{ handler: "completeIn", runIn }],
      work: { runners: { threads: 1, processes: 1 } },
    });
    const returned = await everbeat.enqueue(task("completeIn"), { url });
    expect(await everbeat.result(returned, result)).toEqual({ done: true });
    const died = await everbeat.enqueue(task("completeIn"), { url, dies: true });
    expect(await everbeat.result(died, result)).toEqual({ done: true });
    const uncommitted = await everbeat.enqueue(task("completeIn"), { url, dies: true, commits: false });
    await expect(everbeat.result(uncommitted, result)).rejects.toMatchObject({ code: "WORKER_CRASHED" });
    expect(await count("everbeat.late")).toBe(0);
    await expectSound();
  });

  test("that floods its log and its standard error harms nobody, and is told what was dropped", async () => {
    const { everbeat, url } = await openCrashDatabase();
    const tasks: RunnerTask[] = [{ handler: "flood", runIn }, { handler: "look" }];
    const worker = await startRunnerWorker({ url, tasks });
    const id = await everbeat.enqueue(task("flood"), { lines: 200_000 });
    expect(await everbeat.result(id, { timeout: 50_000 })).toBe("flooded");
    expect(await everbeat.result(await everbeat.enqueue(task("look"), {}), result)).toBe("inline");
    const [attempt] = (await everbeat.tasks.show(id)).attempts;
    expect(attempt?.progress).toMatchObject({ done: 200_000, total: 200_000 });
    const lines = worker.messages.filter(({ said }) => said === "flood").length;
    expect(lines).toBeGreaterThan(0);
    expect(lines).toBeLessThan(100_000);
  });

  test("that floods its log while its worker reads nothing does not fill the memory, and ends as it would", async () => {
    const { everbeat, url } = await openCrashDatabase();
    const worker = await startRunnerWorker({ url, tasks: [{ handler: "floodLong", runIn }] });
    const id = await everbeat.enqueue(task("floodLong"), { ms: 3_000 });
    await worker.heard({ said: "begun" });
    worker.block(4_000);
    expect(await everbeat.result(id, { timeout: 50_000 })).toBeLessThan(100);
    expect((await everbeat.tasks.show(id)).attempts[0]?.progress).toMatchObject({ phase: "last" });
    // What the worker says comes by a pipe of its own, and may be behind the result.
    for (const beginning of ["xxx", "lines of this log were dropped"])
      await eventually(() => worker.messages.some(({ said }) => said?.startsWith(beginning)), { what: beginning });
  });

  test("does not own its runner: events about runners come outside of the context of every task", async () => {
    const { url } = await openCrashDatabase();
    const local = await Everbeat.open({ database: url, log: "silent" });
    onTestFinished(() => local.close({ now: true }));
    const ofTask = new AsyncLocalStorage<string>();
    const told: [event: string, of: string | undefined][] = [];
    local.on("runner.started", () => told.push(["started", ofTask.getStore()]));
    local.on("runner.ended", () => told.push(["ended", ofTask.getStore()]));
    const module = new URL("../support/runner-tasks.js", import.meta.url);
    const wait = defineTask({ name: "wait", runIn, module, run: async (_: { ms: number }) => "inline" });
    const worker = await local.work([wait], {
      ...{ handleSignals: false, runners: { threads: 2, processes: 2 } },
      middleware: [({ task: { id } }, next) => ofTask.run(id, next)],
    });
    const ids = await local.enqueueMany(wait, [{ ms: 1_000 }, { ms: 1_000 }]);
    for (const id of ids) expect(await local.result(id, result)).toBe("waited");
    await eventually(() => told.length === 2, { what: "both runners to be started" });
    await worker.stop();
    expect(told).toEqual(["started", "started", "ended", "ended"].map((event) => [event, undefined]));
  });

  test("is recycled after so many, and above its memory mark", async () => {
    const { everbeat, url } = await openCrashDatabase();
    const tasks: RunnerTask[] = [
      { handler: "look", runIn },
      { handler: "grow", runIn },
    ];
    const runners = { threads: 1, processes: 1, recycleAfter: 2, maxMemory: "400MB" } as const;
    const worker = await startRunnerWorker({ url, tasks, work: { runners } });
    const places: unknown[] = [];
    for (let run = 0; run < 3; run++) {
      const looked = (await everbeat.result(await everbeat.enqueue(task("look"), {}), result)) as Record<
        string,
        unknown
      >;
      places.push(`${looked["pid"]} ${looked["threadId"]}`);
    }
    expect(places[0]).toBe(places[1]);
    expect(places[2]).not.toBe(places[1]);
    await everbeat.result(await everbeat.enqueue(task("grow"), { megabytes: 1 }), result);
    await eventually(() => worker.messages.filter(({ event }) => event === "runner.ended").length === 2, {
      within: 20_000,
    });
    await everbeat.result(await everbeat.enqueue(task("grow"), { megabytes: 500 }), result);
    const ended = await eventually(() => worker.messages.filter(({ event }) => event === "runner.ended"), {
      until: (events) => events.length === 3,
      within: 20_000,
    });
    expect(ended.map(({ because }) => because)).toEqual(["recycled", "recycled", "recycled"]);
  });
});

test("a task whose process cannot open any more files fails as it would inline, and takes its runner nothing", async () => {
  const { everbeat, url, expectSound } = await openCrashDatabase();
  const tasks = ["openNoMore", "look"].map((handler): RunnerTask => ({ handler, runIn: "process" }));
  const worker = await startRunnerWorker({ url, tasks, work: { runners: { processes: 1 } } });
  const id = await everbeat.enqueue(task("openNoMore"), {});
  const { pid } = await worker.heard({ said: "begun", taskId: id });
  await expect(everbeat.result(id, result)).rejects.toMatchObject({ code: "EMFILE" });
  expect(await everbeat.result(await everbeat.enqueue(task("look"), {}), result)).toMatchObject({ pid });
  await expectSound();
});

test("a batch of many items costs the worker's standard error no warning", async () => {
  const { everbeat, url } = await openCrashDatabase();
  const warnings: string[] = [];
  const onWarning = ({ name }: Error) => void warnings.push(name);
  process.on("warning", onWarning);
  onTestFinished(() => void process.off("warning", onWarning));
  const double = defineBatchTask({
    ...{ name: "double", batchSize: 50, runIn: "thread" },
    module: new URL("../support/runner-tasks.js", import.meta.url),
    run: async (items: readonly BatchItem<{ n: number }>[]) => items.map(({ input }) => input.n),
  });
  const local = await Everbeat.open({ database: url, log: "silent" });
  onTestFinished(() => local.close({ now: true }));
  const ids = await everbeat.enqueueMany(
    double,
    Array.from({ length: 50 }, (_, n) => ({ n })),
  );
  await local.work([double], { handleSignals: false, concurrency: 50 });
  expect(await Promise.all(ids.map((id) => everbeat.result(id, result)))).toEqual(ids.map((_, n) => 2 * n));
  expect(warnings).toEqual([]);
});

test("a batch crosses as one, and each of its items has its own outcome", async () => {
  const { everbeat, url } = await openCrashDatabase();
  const module = new URL("../support/runner-tasks.js", import.meta.url);
  const double = defineBatchTask({
    name: "double",
    batchSize: 10,
    runIn: "thread",
    module,
    run: async (items: readonly BatchItem<{ n: number }>[]) => items.map(({ input }) => input.n),
  });
  const local = await Everbeat.open({ database: url, log: "silent" });
  onTestFinished(() => local.close({ now: true }));
  const ids = await everbeat.enqueueMany(double, [{ n: 1 }, { n: -1 }, { n: 3 }]);
  await local.work([double], { handleSignals: false });
  const endings = await Promise.all(
    ids.map((id) => everbeat.result(id, result).catch((error: Error) => error.message)),
  );
  expect(endings).toEqual([2, expect.stringContaining("negative: -1"), 6]);
});
