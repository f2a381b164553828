/** Runners that cannot be started: no task fails for it, somebody is told, and work goes on when they can. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { Everbeat } from "../../src/everbeat.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { startRunnerWorker, task } from "../support/runner-worker.ts";

vi.setConfig({ testTimeout: 120_000 });
const INDEX = new URL("../../dist/index.js", import.meta.url).href;
const GOOD = `import { defineTask } from ${JSON.stringify(INDEX)};
export const look = defineTask({ name: "look", run: async () => "looked" });`;

function moduleFile(text: string): string {
  const folder = mkdtempSync(join(tmpdir(), "everbeat-runner-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "tasks.mjs");
  writeFileSync(file, text);
  return file;
}

describe.each(["thread", "process"] as const)("a %s whose module cannot be loaded", (runIn) => {
  test("trips a breaker with an alert; no task fails, and all run when it is mended", async () => {
    const file = moduleFile("throw new Error('no such thing as the other module');");
    const { everbeat, url, query, expectSound } = await openCrashDatabase();
    const tasks = [{ handler: "look", runIn }, { handler: "inline-one" }];
    const module = pathToFileURL(file).href;
    const ids = await everbeat.enqueueMany(
      task("look"),
      Array.from({ length: 20 }, () => ({})),
    );
    const worker = await startRunnerWorker({ url, tasks, module });
    const suspended = await worker.heard({ event: "runners.suspended" });
    expect(suspended).toMatchObject({ kind: runIn, message: expect.stringContaining("no such thing") });
    // What runs inline is none of its business.
    expect(await everbeat.result(await everbeat.enqueue(task("inline-one"), {}), { timeout: 40_000 })).toBe("inline");
    const alerts = () => query("select message, resolved_at from everbeat.alert where kind = 'runners-suspended'");
    const [alert] = await eventually(alerts, { until: (rows) => rows.length > 0, within: 20_000 });
    expect(alert).toMatchObject({ resolved_at: null, message: expect.stringContaining("no such thing") });
    await eventually(async () => (await query("select 1 from everbeat.ready where name = 'look'")).length, {
      until: (count) => count === 20,
      within: 20_000,
      what: "all of them given back",
    });
    expect((await query("select 1 from everbeat.ended where state = 'failed'")).length).toBe(0);
    writeFileSync(file, GOOD);
    for (const id of ids) expect(await everbeat.result(id, { timeout: 60_000 })).toBe("looked");
    await worker.heard({ event: "runners.resumed" });
    await eventually(async () => (await alerts())[0]?.["resolved_at"], { within: 20_000 });
    const [{ failures } = { failures: -1 }] = await query<{ failures: number }>(
      "select sum(failures + crashes)::int as failures from everbeat.ended",
    );
    expect(failures).toBe(0);
    await expectSound();
  });
});

test("two replicas of a machine whose runners cannot be started have an alert each, and the one that recovers ends its own", async () => {
  const { url, query, everbeat } = await openCrashDatabase();
  const start = async () => {
    const file = moduleFile("throw new Error('not here');");
    const tasks = [{ handler: "look", runIn: "thread" }] as const;
    const worker = await startRunnerWorker({ url, tasks, module: pathToFileURL(file).href });
    return { file, worker };
  };
  const [one, other] = [await start(), await start()];
  await everbeat.enqueueMany(
    task("look"),
    Array.from({ length: 40 }, () => ({})),
  );
  const open = async () =>
    (
      await query<{ subject: string }>(
        "select subject from everbeat.alert where kind = 'runners-suspended' and resolved_at is null order by 1",
      )
    ).map(({ subject }) => subject);
  const subjectOf = ({ worker }: typeof one) => `thread of replica ${worker.replicaId}`;
  await eventually(open, { until: ({ length }) => length === 2, within: 40_000 });
  expect(await open()).toEqual([subjectOf(one), subjectOf(other)].toSorted());
  writeFileSync(one.file, GOOD);
  await one.worker.heard({ event: "runners.resumed" });
  await eventually(open, { until: ({ length }) => length === 1, within: 20_000 });
  expect(await open()).toEqual([subjectOf(other)]);
});

describe("a process whose module never comes to an end of loading", () => {
  const SLOW = "await new Promise(() => {});";

  test("is given up after the start timeout, and what waited for it is given back", async () => {
    const module = pathToFileURL(moduleFile(SLOW)).href;
    const { everbeat, url, query } = await openCrashDatabase();
    const id = await everbeat.enqueue(task("look"), {});
    const work = { runners: { startTimeout: 1_000 } };
    const worker = await startRunnerWorker({ url, tasks: [{ handler: "look", runIn: "process" }], module, work });
    expect(await worker.heard({ event: "runner.ended" })).toMatchObject({ because: "unstarted", signal: "SIGKILL" });
    expect(await worker.heard({ event: "runners.suspended" })).toMatchObject({
      message: expect.stringContaining("1000 ms"),
    });
    const state = async () => (await everbeat.tasks.show(id)).state;
    await eventually(state, { until: (now) => now === "pending", within: 20_000 });
    const [row] = await query("select failures, crashes from everbeat.tasks where id = $1", [id]);
    expect(row).toEqual({ failures: 0, crashes: 0 });
  });

  test("does not keep a task from being cancelled meanwhile", async () => {
    const module = pathToFileURL(moduleFile(SLOW)).href;
    const { everbeat, url } = await openCrashDatabase();
    const worker = await startRunnerWorker({
      url,
      tasks: [{ handler: "look", runIn: "process", timeout: 50 }],
      module,
    });
    const id = await everbeat.enqueue(task("look"), {});
    await worker.heard({ event: "task.started" });
    await everbeat.tasks.cancel(id, { reason: "not needed" });
    await expect(everbeat.result(id, { timeout: 25_000 })).rejects.toMatchObject({ error: { message: "not needed" } });
  });
});

/** From now on this process opens no more files, pipes or sockets than so many; those that it has stay open. */
function limitOpenFiles(pid: number, most: number): void {
  execFileSync("prlimit", ["--pid", String(pid), `--nofile=${most}:`]);
}

describe.each(["thread", "process"] as const)(
  "a %s that the operating system does not let its worker make",
  (runIn) => {
    test("has failed to start; the worker lives on, and tries again also while another of its runners lives", async () => {
      const { everbeat, url, query, expectSound } = await openCrashDatabase();
      const tasks = [
        { handler: "die", runIn, onCrash: "requeue" as const },
        { handler: "wait", runIn },
        { handler: "look" },
      ];
      const worker = await startRunnerWorker({ url, tasks, work: { runners: { threads: 2, processes: 2 } } });
      const waiting = await everbeat.enqueue(task("wait"), { ms: 3_000 });
      await worker.heard({ said: "begun", taskId: waiting });
      const dying = await everbeat.enqueue(task("die"), { how: "exit", once: true });
      await worker.heard({ said: "begun", taskId: dying });
      limitOpenFiles(worker.pid, 3);
      const suspended = await worker.heard({ event: "runners.suspended" });
      expect(suspended).toMatchObject({ kind: runIn, message: expect.stringContaining("EMFILE") });
      expect(await everbeat.result(await everbeat.enqueue(task("look"), {}), { timeout: 20_000 })).toBe("inline");
      expect(await everbeat.result(waiting, { timeout: 20_000 })).toBe("waited");
      limitOpenFiles(worker.pid, 1_024);
      await worker.heard({ event: "runners.resumed" });
      expect(await everbeat.result(dying, { timeout: 20_000 })).toBe("survived");
      expect(await query("select 1 from everbeat.ended where state = 'failed'")).toEqual([]);
      await expectSound();
    });
  },
);

describe("a process whose environment is too large for the operating system", () => {
  const TOO_LARGE = "data:text/javascript,process.env.TOO_LARGE = 'x'.repeat(200_000)";

  test("has failed to start, and its worker starts all the same", async () => {
    const { everbeat, url } = await openCrashDatabase();
    const tasks = [{ handler: "wait", runIn: "process" as const }, { handler: "look" }];
    const worker = await startRunnerWorker({ url, tasks, nodeArguments: ["--import", TOO_LARGE] });
    expect(await worker.heard({ event: "runners.suspended" })).toMatchObject({
      message: expect.stringContaining("E2BIG"),
    });
    expect(await everbeat.result(await everbeat.enqueue(task("look"), {}), { timeout: 20_000 })).toBe("inline");
  });
});

describe("a worker refuses", () => {
  test("a task with runIn that does not say where its code is, and says what to do", async () => {
    const { everbeat } = await openCrashDatabase();
    const lost = defineTask({ name: "lost", runIn: "process", run: async () => {} });
    await expect(everbeat.work([lost])).rejects.toThrow(/"lost" runs in a process.*module: import\.meta\.url/s);
  });

  test("options that make no sense", async () => {
    const { everbeat } = await openCrashDatabase();
    const fine = defineTask({ name: "fine", run: async () => {} });
    const runners = { threads: 0, maxMemory: "much", recycleafter: 3 } as never;
    await expect(everbeat.work([fine], { runners })).rejects.toThrow(
      /runners\.threads.*runners\.maxMemory.*recycleAfter/s,
    );
    expect(() => defineTask({ name: "x", runIn: "proces" as never, run: () => 1 })).toThrow(/did you mean "process"/);
    expect(() => defineTask({ name: "x", runIn: "thread", module: "./tasks.js", run: () => 1 })).toThrow(
      /import\.meta\.url/,
    );
  });

  test("to be started by a module that a runner loads", async () => {
    const file = moduleFile(`import { defineTask, Everbeat } from ${JSON.stringify(INDEX)};
      export const look = defineTask({ name: "look", run: async () => "looked" });
      const everbeat = await Everbeat.open({ database: process.env.TEST_URL, log: "silent" });
      await everbeat.work([look]).finally(() => everbeat.close());`);
    const { url } = await openCrashDatabase();
    process.env["TEST_URL"] = url;
    onTestFinished(() => void delete process.env["TEST_URL"]);
    const local = await Everbeat.open({ database: url, log: "silent" });
    onTestFinished(() => local.close({ now: true }));
    const messages: string[] = [];
    local.on("runners.suspended", ({ message }) => messages.push(message));
    const look = defineTask({ name: "look", runIn: "process", module: file, run: async () => {} });
    await local.work([look], { handleSignals: false });
    await eventually(() => messages[0], { within: 60_000 });
    expect(messages[0]).toContain("a module of their own");
  });
});
