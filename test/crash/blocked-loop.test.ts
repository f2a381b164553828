/** Main threads that do not turn their loop: seen with their stack, and ended where a timeout or a bound says so. */

import { describe, expect, test, vi } from "vitest";
import { formatDuration } from "../../src/config/duration.ts";
import type { TaskOptions } from "../../src/task/define-task.ts";
import { type CrashDatabase, openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { type Handler, PATIENT, startWorker, task, type WorkerProcess } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 120_000 });

/** With room for a thread that is kept from running by others: that is on record too, and is not what a test asks for. */
const QUICKLY = { stackAfter: 1_500, timeoutGrace: 500 };
const ENDLESS = 600_000;
const BLOCK = /^at block \(.*worker-process\.js:\d+:\d+\)/m;
const WAITING = /^at Atomics\.wait/;

interface BlockedRow {
  readonly ended_at: Date | null;
  readonly stack: string | null;
  readonly paused_ms: number | null;
  readonly tasks: readonly { taskId: string }[];
}

/** One that blocks its loop, and one that watches and takes over. */
async function scene(
  options: { blockedLoop?: object; tasks?: readonly ({ handler: Handler } & Partial<TaskOptions>)[] } = {},
) {
  const { blockedLoop = QUICKLY, tasks = [{ handler: "script" }] } = options;
  const database = await openCrashDatabase();
  const open = { recovery: { ...PATIENT, blockedLoop } };
  const busy = await startWorker({ url: database.url, open, tasks });
  return { database, busy, open, tasks };
}

/** What is on record of its worker's main thread while it ran this task, stuck there. */
async function rowsOf(database: CrashDatabase, id: string, fits: (stack: string | null) => boolean) {
  const rows = await database.query<BlockedRow>(
    "select ended_at, stack, paused_ms, tasks from everbeat.blocked_loop where runner_id is null order by id",
  );
  return rows.filter(({ stack, tasks }) => fits(stack) && tasks.some(({ taskId }) => taskId === id));
}

const at = (where: RegExp) => (stack: unknown) => typeof stack === "string" && where.test(stack);

const untilNoted = async (database: CrashDatabase, id: string, fits: (stack: string | null) => boolean) =>
  (await eventually(() => rowsOf(database, id, fits), { within: 30_000, until: ({ length }) => length > 0 }))[0];

const untilOver = ({ messages }: WorkerProcess, where: RegExp) =>
  eventually(() => messages.find(({ event, stack }) => event === "loop.blocked" && at(where)(stack)), {
    ...{ within: 40_000, what: "the end of the blockage" },
  });

async function run(database: CrashDatabase, busy: WorkerProcess, steps: unknown[]): Promise<string> {
  const id = await database.everbeat.enqueue(task("script"), { steps });
  await busy.heard({ handler: "begun", taskId: id });
  return id;
}

describe("a loop that is blocked for a while", () => {
  test("is seen with the stack it is stuck in, and said to be over when it turns again", async () => {
    const { database, busy } = await scene();
    const { everbeat } = database;
    const id = await run(database, busy, [["block", 12_000]]);
    const seen = await untilNoted(database, id, at(BLOCK));
    expect(seen?.tasks).toEqual([{ claimId: expect.any(String), taskId: id, name: "script" }]);
    expect(await everbeat.alerts.list({ open: true })).toMatchObject([
      { kind: "loop-blocked", subject: busy.replicaId, message: expect.stringContaining("block") },
    ]);
    const told = await everbeat.recovery.explain(id);
    expect(told).toMatchObject({
      because: "owner-blocked",
      summary: expect.stringMatching(
        /^Its owner is alive, but its event loop has been blocked for [\d.]+m?s, in: at block \(worker-process\.js:\d+\)\.$/,
      ),
    });
    // Caught perhaps in what it calls, such as the reading of the time.
    expect(told.evidence.join("\n")).toMatch(/^stuck at (?:.*\n +at )*block \(/m);

    const over = await untilOver(busy, BLOCK);
    expect(over?.["blockedForMs"]).toBeGreaterThan(4_000);
    expect(await everbeat.result(id, { timeout: 20_000 })).toBe("done");
    await eventually(async () => (await everbeat.alerts.list({ open: true })).length === 0);
    // Noted at 1.5 s, and again each time it had lasted twice as long: one row all the same.
    const rows = await rowsOf(database, id, at(BLOCK));
    expect(rows).toMatchObject([{ ended_at: expect.any(Date) }]);
    expect(rows[0]?.paused_ms).toBeGreaterThan(0);
  });

  test("is seen in a wait that is not JavaScript, and without a stack in native code that does not answer", async () => {
    const { database, busy } = await scene();
    const first = await run(database, busy, [["wait", 5_000]]);
    await untilNoted(database, first, at(WAITING));
    await untilOver(busy, WAITING);

    const id = await run(database, busy, [["child", 12_000]]);
    const native = await untilNoted(database, id, (stack) => stack === null);
    expect(native?.ended_at).toBeNull();
    const told = await database.everbeat.recovery.explain(id);
    expect(told.evidence.join("\n")).toMatch(/did not answer where it is: it is in native code/);
    expect(await database.everbeat.result(id, { timeout: 20_000 })).toBe("done");
    expect(await database.deaths()).toBe(0);
  });

  test("is not taken for one where the whole process stood still", async () => {
    const recovery = {
      ...PATIENT,
      runningStaleThreshold: 60_000,
      claimedStaleThreshold: 60_000,
      sessionEvidence: false,
    };
    const database = await openCrashDatabase();
    const open = { recovery: { ...recovery, blockedLoop: { ...QUICKLY, endAfter: 4_000 } } };
    const worker = await startWorker({ url: database.url, open, tasks: [{ handler: "hold" }] });
    const id = await database.everbeat.enqueue(task("hold"), {});
    await worker.heard({ handler: "begun", taskId: id });
    worker.signal("SIGSTOP");
    const stoppedAt = performance.now();
    await eventually(() => performance.now() - stoppedAt > 8_000, { every: 200, within: 20_000 });
    worker.signal("SIGCONT");
    const before = (await database.replica(worker.replicaId)).beat_at;
    await eventually(async () => (await database.replica(worker.replicaId)).beat_at > before);
    worker.release();
    expect(await database.everbeat.result(id, { timeout: 20_000 })).toBe("held");
    expect(worker.endedBy).toBeUndefined();
    // It would have been blocked for eight.
    expect(await database.query("select from everbeat.blocked_loop where blocked_ms > 6000")).toEqual([]);
  });
});

describe("a task that blocks the loop past its timeout", () => {
  test("has timed out, its process is ended, and the others in hand are recovered uncharged", async () => {
    const { database, busy, open } = await scene({
      tasks: [
        { handler: "script", timeout: 1_000 },
        { handler: "hold", onCrash: "requeue" },
        { handler: "deaf", onCrash: "fail" },
      ],
    });
    const { everbeat } = database;
    const repeated = await everbeat.enqueue(task("hold"), {});
    const spared = await everbeat.enqueue(task("deaf"), {});
    await busy.heard({ handler: "begun", taskId: repeated });
    await busy.heard({ handler: "begun", taskId: spared });
    const guilty = await run(database, busy, [["block", ENDLESS]]);
    expect((await busy.exited).signal).toBe("SIGKILL");
    expect(await everbeat.tasks.show(guilty)).toMatchObject({
      state: "failed",
      failures: 1,
      error: { code: "TASK_TIMED_OUT", message: expect.stringMatching(/blocked its worker's event loop.*block/) },
    });
    expect(await database.crashesOf(guilty)).toBe(0);
    // The process that is ended says so in its last words.
    expect(busy.complaints()).toMatch(
      new RegExp(
        `the event loop of replica ${busy.replicaId} has been blocked for .*, past the timeout of task ${guilty} \\(script\\), in: at block .*ends this process`,
      ),
    );
    expect((await everbeat.alerts.list({ kind: "loop-blocked" }))[0]?.advice[0]).toMatchObject({
      input: { id: guilty },
    });
    expect(await database.replica(busy.replicaId)).toMatchObject({
      status: "dead",
      death: { because: "loop-blocked", isCharged: false },
    });

    const next = await startWorker({ url: database.url, open, tasks: [{ handler: "hold", onCrash: "requeue" }] });
    await next.heard({ handler: "begun", taskId: repeated, attempt: 2 });
    expect(await everbeat.tasks.show(repeated)).toMatchObject({
      attempts: [{ outcome: "aborted" }, { outcome: "running" }],
    });
    expect(await database.crashesOf(repeated)).toBe(0);
    // Nobody has said that this one may be repeated.
    await eventually(async () => (await everbeat.tasks.show(spared)).state === "failed");
    expect(await database.crashesOf(spared)).toBe(0);
    await eventually(async () => (await everbeat.alerts.list({ open: true })).length === 0);
    // So does whoever finds it, and the post-mortem is found by the task that was at fault.
    const blamed = expect.stringMatching(
      new RegExp(`past the timeout of task ${guilty} \\(script\\), and the heart ended`),
    );
    expect(next.messages.find(({ event }) => event === "replica.examined")).toMatchObject({ sentence: blamed });
    expect(await everbeat.recovery.postMortems({ of: guilty })).toMatchObject([
      { kind: "attempt", taskId: guilty, name: "script", cause: "loop-blocked", sentence: blamed },
    ]);
    expect((await everbeat.recovery.explain(guilty)).summary).toMatch(
      /its timeout of 1s.*blocked its worker's event loop.*its process was ended/,
    );
  });

  test("is tried again as its retry policy says", async () => {
    const { database, busy, open, tasks } = await scene({
      tasks: [{ handler: "script", timeout: 1_000, retry: { attempts: 2, delay: 10 } }],
    });
    const id = await run(database, busy, [["wait", ENDLESS]]);
    expect((await busy.exited).signal).toBe("SIGKILL");
    await startWorker({ url: database.url, open, tasks });
    expect(await database.everbeat.result(id as never, { timeout: 30_000 })).toBe("done");
    expect(await database.everbeat.tasks.show(id)).toMatchObject({
      failures: 1,
      attempts: [{ outcome: "failed", error: { code: "TASK_TIMED_OUT" } }, { outcome: "completed" }],
    });
  });

  test("is left alone where it gives the loop back in time", async () => {
    const { database, busy } = await scene({
      blockedLoop: { stackAfter: 400, timeoutGrace: 20_000 },
      tasks: [{ handler: "script", timeout: 500 }],
    });
    const id = await run(database, busy, [["block", 3_000]]);
    // It returned all the same: finished work is finished.
    expect(await database.everbeat.result(id as never, { timeout: 20_000 })).toBe("done");
    expect(busy.endedBy).toBeUndefined();
    expect(await database.deaths()).toBe(0);
  });
});

test("a loop that is blocked beyond the bound ends its process, and its tasks are recovered as after a crash", async () => {
  const { database, busy, open, tasks } = await scene({
    blockedLoop: { stackAfter: 1_500, endAfter: 4_000 },
    tasks: [{ handler: "script", onCrash: "requeue" }],
  });
  const id = await run(database, busy, [["block", ENDLESS]]);
  expect((await busy.exited).signal).toBe("SIGKILL");
  expect((await database.replica(busy.replicaId)).death).toMatchObject({
    because: "loop-blocked",
    isCharged: true,
    stack: expect.stringContaining("block"),
  });
  // Longer than its last beat could know of.
  const { blockedForMs } = (await database.replica(busy.replicaId)).death as { blockedForMs: number };
  await startWorker({ url: database.url, open, tasks });
  expect(await database.everbeat.result(id as never, { timeout: 30_000 })).toBe("done");
  expect(await database.crashesOf(id)).toBe(1);
  const examined = async () => (await database.everbeat.recovery.postMortems({ kind: "replica" }))[0];
  expect(await eventually(examined)).toMatchObject({
    cause: "loop-blocked",
    sentence: expect.stringContaining(`blocked the event loop for ${formatDuration(blockedForMs)}, and`),
  });
});
