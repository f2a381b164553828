import { describe, expect, test } from "vitest";
import { defineTask, type Task } from "../../src/task/define-task.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { expectGivenBack } from "../support/leaving-at-once.ts";
import { projectWith, type RunningCli, startEverbeat } from "./run-cli.ts";

const { everbeat, database } = await openTestEverbeat();
const at = { database: database.url };

/** Known by name alone: the code is in the worker's own file. */
function named<Input, Output>(name: string): Task<Input, Awaited<Output>> {
  return defineTask<Output, Input>({
    name,
    run(): Output {
      throw new Error("it runs elsewhere");
    },
  });
}

async function untilRunning(id: string): Promise<void> {
  await eventually(async () => (await everbeat.tasks.show(id)).state === "running", { what: `${id} to run` });
}

describe("start", () => {
  test.each([
    [0, 1],
    [3, 3],
  ])("a handler that calls process.exit(%i) is told of, and is no success: exit code %i", async (code, exitCode) => {
    const cwd = await projectWith({
      "tasks.js": `
        import { defineTask } from "everbeat";
        export const leaves = defineTask({ name: "leaves-${code}", run: async () => process.exit(${code}) });
      `,
    });
    const worker = startEverbeat(["start", "tasks.js"], { ...at, cwd });
    await worker.says("worker started");
    await everbeat.enqueue(named<void, void>(`leaves-${code}`));
    const ended = await worker.ended;
    expect(ended.code).toBe(exitCode);
    expect(ended.stderr).toContain(
      `The process exits with code ${code} while 1 task was running. Nobody had asked it to.`,
    );
  });

  test("a program whose own listener exits at SIGTERM is told that it did not wait, and keeps its exit code", async () => {
    const cwd = await projectWith({
      "tasks.js": `
        import { defineTask } from "everbeat";
        process.on("SIGTERM", () => process.exit(0));
        export const waits = defineTask({ name: "waits-for-ever", run: () => new Promise(() => {}) });
      `,
    });
    const worker = startEverbeat(["start", "tasks.js"], { ...at, cwd });
    await worker.says("worker started");
    await untilRunning(await everbeat.enqueue(named<void, void>("waits-for-ever")));
    worker.child.kill("SIGTERM");
    const { code, stderr } = await worker.ended;
    expect(code).toBe(0);
    expect(stderr).toContain("The process exits with code 0 while 1 task was running. It had been asked to stop");
    expect(stderr).not.toContain("Nobody had asked");
  });

  test("runs the tasks of a TypeScript file, with what it imports", async () => {
    const cwd = await projectWith({
      "tasks.ts": `
        import { ClaimLostError, defineBatchTask, defineTask, EverbeatError } from "everbeat";
        import { z } from "zod";
        import { factor, Unit } from "./factor.ts";
        export const scale = defineTask({
          name: "scale",
          input: z.object({ by: z.number() }),
          run: async ({ by }: { by: number }) => ({ value: by * factor, unit: Unit.Metre }),
        });
        // The worker's own classes, not a second copy of them.
        export const isOurs = defineTask({ name: "is-ours", run: async (_: null, { signal, log }) => {
          log.info({ colour: "red" }, "a line of the handler's own");
          return { isOurs: ClaimLostError.prototype instanceof EverbeatError, aborted: signal.aborted };
        } });
        export default [
          defineTask({ name: "in-a-list", run: async () => "listed" }),
          defineBatchTask({ name: "in-batches", batchSize: 5, run: async (items: readonly unknown[]) => items.map(() => "batched") }),
        ];
        export const unrelated = { some: "setting" };
      `,
      "factor.ts": "export enum Unit { Metre = 'm' }\nexport const factor: number = await Promise.resolve(3);\n",
    });
    const worker = startEverbeat(["start", "tasks.ts", "--json"], { ...at, cwd });
    await worker.says('"worker.started"');
    expect(await everbeat.result(await everbeat.enqueue(named<{ by: number }, unknown>("scale"), { by: 4 }))).toEqual({
      value: 12,
      unit: "m",
    });
    for (const [name, result] of [
      ["in-a-list", "listed"],
      ["in-batches", "batched"],
      ["is-ours", { isOurs: true, aborted: false }],
    ] as const) {
      expect(await everbeat.result(await everbeat.enqueue(named<null, unknown>(name), null))).toEqual(result);
    }
    worker.child.kill("SIGTERM");
    const { code, stdout } = await worker.ended;
    expect(code).toBe(0);
    const lines = stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(lines[0]).toMatchObject({ event: "worker.started", tasks: expect.arrayContaining(["scale", "in-a-list"]) });
    expect(lines).toContainEqual(expect.objectContaining({ message: "a line of the handler's own", colour: "red" }));
    expect(lines.at(-1)).toMatchObject({ event: "worker.stopped" });
  });

  test("runs tasks of a TypeScript file in threads and processes, which find them in that file", async () => {
    const cwd = await projectWith({
      "tasks.ts": `
        import { threadId } from "node:worker_threads";
        import { ClaimLostError, defineTask, EverbeatError } from "everbeat";
        const where = async (_: null) => ({ pid: process.pid, threadId, isOurs: ClaimLostError.prototype instanceof EverbeatError });
        export const inThread = defineTask({ name: "in-thread", runIn: "thread", run: where });
        export const inProcess = defineTask({ name: "in-process", runIn: "process", run: where });
      `,
    });
    const worker = startEverbeat(["start", "tasks.ts", "--json"], { ...at, cwd });
    await worker.says('"worker.started"');
    const run = async (name: string) =>
      everbeat.result(await everbeat.enqueue(named<null, { pid: number; threadId: number }>(name), null));
    expect(await run("in-thread")).toMatchObject({ pid: worker.child.pid, threadId: expect.any(Number), isOurs: true });
    const { pid, threadId } = await run("in-process");
    expect(pid).not.toBe(worker.child.pid);
    expect(threadId).toBe(0);
    worker.child.kill("SIGTERM");
    expect((await worker.ended).code).toBe(0);
  });

  test("runs the tasks of several JavaScript files, in the queues and numbers asked for", async () => {
    const task = (name: string, queue: string) =>
      `import { defineTask } from "everbeat";\nexport const ${name} = defineTask({ name: "${name}", queue: "${queue}", run: async () => "${name}" });\n`;
    const cwd = await projectWith({
      "one.js": task("one", "first"),
      "two.mjs": task("two", "second"),
      "three.mts": task("three", "third"),
    });
    const options = ["--queues", "first,second", "--concurrency", "2", "--prefetch", "0", "--poll-interval", "100ms"];
    const worker = startEverbeat(["start", "one.js", "two.mjs", "three.mts", ...options, "--log-level", "debug"], {
      ...at,
      cwd,
    });
    await worker.says("worker started with 3 tasks, concurrency 2");
    const [one, two] = [named<null, string>("one"), named<null, string>("two")];
    expect(await everbeat.result(await everbeat.enqueue(one, null, { queue: "first" }))).toBe("one");
    expect(await everbeat.result(await everbeat.enqueue(two, null, { queue: "second" }))).toBe("two");
    await worker.says(/✓ two completed after \d+ms/);
    const [replica] = (await everbeat.replicas()).filter((row) => row.pid === worker.child.pid);
    expect(replica).toMatchObject({ queues: ["first", "second"], tasks: ["one", "two", "three"] });
    worker.child.kill("SIGINT");
    expect((await worker.ended).code).toBe(0);
  });

  test("waits for a handler that ignores its signal for as long as --abort-grace says", async () => {
    const cwd = await projectWith({
      "tasks.js": `import { defineTask } from "everbeat";\nexport const deaf = defineTask({ name: "deaf", timeout: 100, run: () => new Promise(() => {}) });\n`,
    });
    const worker = startEverbeat(["start", "tasks.js", "--abort-grace", "150ms"], { ...at, cwd });
    await worker.says("worker started");
    const id = await everbeat.enqueue(named<null, unknown>("deaf"), null);
    // Ten seconds are the default.
    await expect(everbeat.result(id, { timeout: 30_000 })).rejects.toMatchObject({
      error: { message: expect.stringMatching(/it was abandoned (\d+ms|[1-9](\.\d)?s) later \(abortGrace\)/) },
    });
    worker.child.kill("SIGTERM");
    expect((await worker.ended).code).toBe(0);
  });

  test("shows a failed task, and goes on", async () => {
    const cwd = await projectWith({
      "tasks.ts": `import { defineTask } from "everbeat";\nexport const sad = defineTask({ name: "sad", async run() {\n  throw new Error("no luck");\n} });\n`,
    });
    const worker = startEverbeat(["start", "tasks.ts"], { ...at, cwd });
    await worker.says("worker started");
    const id = await everbeat.enqueue(named<null, unknown>("sad"), null);
    await worker.says(/✗ sad failed after \d+ms: no luck/);
    // Where it happened, in the file as it was written.
    expect((await everbeat.tasks.show(id)).error?.stack).toMatch(/tasks\.ts:3:/);
    worker.child.kill("SIGTERM");
    expect((await worker.ended).code).toBe(0);
  });
});

describe("a worker that is asked to stop", () => {
  const source = `
    import { setTimeout as pause } from "node:timers/promises";
    import { defineTask } from "everbeat";
    export const slow = defineTask({ name: "slow", run: async ({ ms, heeds }, { signal }) => {
      await pause(ms, undefined, heeds ? { signal } : {});
      return "ended";
    } });
  `;
  const slow = named<{ ms: number; heeds: boolean }, string>("slow");

  async function startSlow() {
    const worker = startEverbeat(["start", "tasks.js"], { ...at, cwd: await projectWith({ "tasks.js": source }) });
    await worker.says("worker started");
    return worker;
  }

  /** The second time, once the first is on record. */
  async function stopTwice({ child, ended, says }: RunningCli, signal: NodeJS.Signals, id: string): Promise<void> {
    child.kill(signal);
    await says("worker stopping");
    const ownRow = async () => (await everbeat.replicas()).find((row) => row.pid === child.pid);
    await eventually(async () => (await ownRow())?.status === "draining");
    const toldAt = performance.now();
    child.kill(signal);
    const { code } = await ended;
    const tookMs = performance.now() - toldAt;
    // It failed to leave in good order where that took longer than the three seconds that it has.
    if (code !== 0) expect({ code, tookMs }).toEqual({ code: 1, tookMs: expect.toSatisfy((ms: number) => ms > 2_900) });
    await expectGivenBack(everbeat, { ids: [id], pids: [child.pid], tookMs });
    await everbeat.tasks.cancel(id);
  }

  test("lets its running task end, and exits with 0", async () => {
    const worker = await startSlow();
    const id = await everbeat.enqueue(slow, { ms: 5_000, heeds: false });
    await untilRunning(id);
    worker.child.kill("SIGTERM");
    const { code, signal, stdout } = await worker.ended;
    expect({ code, signal }).toEqual({ code: 0, signal: null });
    expect(stdout).toMatch(/worker stopping, tasks still running: 1/);
    expect(await everbeat.tasks.show(id)).toMatchObject({ state: "completed", result: "ended" });
    expect((await everbeat.replicas()).find((row) => row.pid === worker.child.pid)?.status).toBe("offline");
  });

  test("twice gives its running task back at once", async () => {
    const worker = await startSlow();
    const id = await everbeat.enqueue(slow, { ms: 600_000, heeds: true });
    await untilRunning(id);
    await stopTwice(worker, "SIGTERM", id);
  });

  test("twice does not wait for a task that ignores its signal, and gives it back all the same", async () => {
    const worker = await startSlow();
    const id = await everbeat.enqueue(slow, { ms: 600_000, heeds: false });
    await untilRunning(id);
    await stopTwice(worker, "SIGINT", id);
  });
});
