/** Runners that do not turn their loop are seen with the stack they are stuck in, and leave it behind when they are ended. */
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { RecoveryOptions } from "../../src/config/recovery-options.ts";
import type { TaskOptions } from "../../src/task/define-task.ts";
import { type CrashDatabase, openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { isAlive } from "../support/processes.ts";
import { type RunnerWorker, startRunnerWorker, task } from "../support/runner-worker.ts";
import { PATIENT } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 120_000 });

const ENDLESS = 600_000;
/** With room for a thread that is kept from running by others: that is on record too, and is not what a test asks for. */
const QUICKLY = { stackAfter: 1_500 };
const AT_ONCE = { ...PATIENT, blockedLoop: { stackAfter: 400 } };
const CHURN = /^at churn \(.*runner-tasks\.js:\d+:\d+\)$/m;
const WAITING = /^at Atomics\.wait/;

interface BlockedRow {
  readonly replica_id: string;
  readonly runner_id: string | null;
  readonly ended_at: Date | null;
  readonly stack: string | null;
  readonly paused_ms: number | null;
  readonly tasks: readonly { taskId: string }[];
}

async function scene(
  options: { runIn: "thread" | "process"; recovery?: RecoveryOptions; abortGrace?: number } & Partial<TaskOptions>,
) {
  const { recovery = PATIENT, abortGrace = 300, ...definition } = options;
  const database = await openCrashDatabase();
  const worker = await startRunnerWorker({
    url: database.url,
    open: { recovery: { blockedLoop: QUICKLY, ...recovery } },
    tasks: [{ handler: "compute", ...definition }],
    work: { abortGrace, runners: { threads: 1, processes: 1 } },
  });
  const run = async (input: object) => {
    const id = await database.everbeat.enqueue(task("compute"), input);
    const { pid } = await worker.heard({ said: "begun", taskId: id });
    return { id, pid: pid as number };
  };
  return { database, worker, run, everbeat: database.everbeat };
}

const blockedRows = (database: CrashDatabase) =>
  database.query<BlockedRow>(
    "select replica_id::text, runner_id::text, ended_at, stack, paused_ms, tasks from everbeat.blocked_loop order by id",
  );

/** What is on record of the runner of this task. */
const rowsOf = async (database: CrashDatabase, id: string) =>
  (await blockedRows(database)).filter(
    ({ runner_id: runner, tasks }) => runner !== null && tasks.some(({ taskId }) => taskId === id),
  );

/** The first that fits. */
async function untilNoted(
  database: CrashDatabase,
  id: string,
  fits = ({ stack }: BlockedRow) => CHURN.test(stack ?? ""),
): Promise<BlockedRow> {
  const rows = await eventually(() => rowsOf(database, id), {
    ...{ within: 30_000, what: "the blockage to be on record" },
    until: (all) => all.some(fits),
  });
  return rows.find(fits) as BlockedRow;
}

const untilOver = (worker: RunnerWorker, where: RegExp) =>
  eventually(() => worker.messages.find(({ event, stack }) => event === "loop.blocked" && where.test(String(stack))), {
    within: 40_000,
    what: "the end of the blockage",
  });

describe.each(["process", "thread"] as const)("in a %s, a loop that is blocked", (runIn) => {
  test("is seen with the stack it is stuck in, and said to be over when it turns again", async () => {
    const { database, worker, run, everbeat } = await scene({ runIn });
    const { id } = await run({ ms: 12_000 });
    const seen = await untilNoted(database, id);
    const { runner } = await eventually(() => everbeat.tasks.show(id), { until: ({ runner: on }) => on !== null });
    // Nobody needs to know how Node and we came to call the handler.
    expect(seen.stack?.split("\n").at(-1)).toMatch(/^at .*compute \(.*runner-tasks\.js:\d+:\d+\)$/);
    expect(seen).toMatchObject({
      ...{ replica_id: worker.replicaId, runner_id: runner?.id, ended_at: null },
      tasks: [{ claimId: expect.any(String), taskId: id, name: "compute" }],
    });
    const who = runIn === "process" ? `process ${runner?.pid}` : "a thread";
    const alerts = await everbeat.alerts.list({ open: true });
    expect(alerts.filter(({ subject }) => subject === runner?.id)).toMatchObject([
      {
        kind: "loop-blocked",
        message: expect.stringContaining(
          `The event loop of runner ${runner?.id} (${who}) of replica ${worker.replicaId} on `,
        ),
      },
    ]);
    const told = await everbeat.recovery.explain(id);
    expect(told).toMatchObject({
      because: "runner-blocked",
      summary: expect.stringMatching(
        /^Its runner is alive, but its event loop has been blocked for [\d.]+m?s, in: at churn \(runner-tasks\.js:\d+\)\.$/,
      ),
    });
    expect(told.evidence.join("\n")).toMatch(/^stuck at (?:.*\n +at )*churn \(/m);

    const over = await untilOver(worker, CHURN);
    expect(over).toMatchObject({ replicaId: worker.replicaId, runnerId: runner?.id });
    expect(over?.["blockedForMs"]).toBeGreaterThan(4_000);
    expect(await everbeat.result(id, { timeout: 20_000 })).toBe("computed");
    await eventually(async () => (await everbeat.alerts.list({ open: true })).length === 0);
    // Noted at 1.5 s, and again each time it had lasted twice as long: one row all the same.
    const noted = (await rowsOf(database, id)).filter(({ stack }) => CHURN.test(stack ?? ""));
    expect(noted).toMatchObject([{ ended_at: expect.any(Date), paused_ms: expect.any(Number) }]);
    expect(await database.deaths()).toBe(0);
  });

  test("is seen in a wait that is not JavaScript, and without a stack in native code that does not answer", async () => {
    const { database, worker, run, everbeat } = await scene({ runIn });
    const { id: first } = await run({ ms: 5_000, how: "wait" });
    await untilNoted(database, first, ({ stack }) => WAITING.test(stack ?? ""));
    await untilOver(worker, WAITING);
    expect(await everbeat.result(first, { timeout: 20_000 })).toBe("computed");

    const { id } = await run({ ms: 12_000, how: "child" });
    const native = await untilNoted(database, id, ({ stack }) => stack === null);
    expect(native).toMatchObject({ paused_ms: null, ended_at: null });
    expect((await everbeat.recovery.explain(id)).evidence.join("\n")).toMatch(
      /thread did not answer where it is: it is in native code/,
    );
    expect(await everbeat.result(id, { timeout: 20_000 })).toBe("computed");
  });

  test("past its timeout is asked before its runner is ended, and its error says where it was", async () => {
    const recovery = { ...PATIENT, blockedLoop: { stackAfter: 60_000 } };
    const { database, run, everbeat } = await scene({ runIn, recovery, timeout: 1_000 });
    const { id, pid } = await run({ ms: ENDLESS });
    await expect(everbeat.result(id, { timeout: 40_000 })).rejects.toMatchObject({
      code: "TASK_TIMED_OUT",
      error: {
        message: expect.stringMatching(
          /its timeout of 1s.*It blocked its runner's event loop.*its runner was ended\. It was in: at churn \(.*runner-tasks\.js/,
        ),
        stack: expect.stringMatching(CHURN),
      },
    });
    if (runIn === "process") expect(isAlive(pid)).toBe(false);
    await eventually(async () => (await everbeat.alerts.list({ open: true })).length === 0, { within: 20_000 });
    await database.expectSound();
  });

  test("is ended at any moment around a look, and the next task has a runner", async () => {
    const { database, run, everbeat } = await scene({ runIn, abortGrace: 100, recovery: AT_ONCE });
    for (const afterMs of [300, 320, 340, 360, 380, 400, 420]) {
      const begunAt = performance.now();
      const { id } = await run({ ms: ENDLESS });
      await eventually(() => performance.now() - begunAt > afterMs, { every: 1 });
      await everbeat.tasks.cancel(id);
      await expect(everbeat.result(id, { timeout: 40_000 })).rejects.toMatchObject({ state: "cancelled" });
    }
    const { id } = await run({ ms: 100 });
    expect(await everbeat.result(id, { timeout: 40_000 })).toBe("computed");
    await eventually(async () => (await everbeat.alerts.list({ open: true })).length === 0, { within: 20_000 });
    await database.expectSound();
  });

  test("leaves its stack in the post-mortem of its task when the replica is killed", async () => {
    const { database, worker, run, everbeat } = await scene({ runIn });
    const { id } = await run({ ms: ENDLESS });
    await untilNoted(database, id);
    const other = [{ handler: "look" }];
    await startRunnerWorker({ url: database.url, open: { recovery: PATIENT }, tasks: other });
    await worker.kill();
    await expect(everbeat.result(id, { timeout: 40_000 })).rejects.toMatchObject({ code: "WORKER_CRASHED" });
    const found = await eventually(() => everbeat.recovery.postMortems({ of: id }), {
      until: (rows) => rows.length > 0,
    });
    expect(found[0]?.evidence.join("\n")).toMatch(
      runIn === "process"
        ? /last stack of its main thread:\n {4}at (?:.*\n {4}at )*churn \(/
        : /last stack of its thread:\n {4}at (?:.*\n {4}at )*churn \(/,
    );
    // The replica's own loop turned.
    const [replica] = await everbeat.recovery.postMortems({ of: worker.replicaId });
    expect(replica?.evidence.join("\n")).not.toContain("last stack");
    await eventually(async () => (await everbeat.alerts.list({ open: true })).length === 0, { within: 20_000 });
  });
});

describe("a runner's process that is blocked", () => {
  test("and killed leaves the stack in its post-mortem, in the error, and no alert", async () => {
    const { database, run, everbeat } = await scene({ runIn: "process" });
    const { id, pid } = await run({ ms: ENDLESS });
    await untilNoted(database, id);
    process.kill(pid, "SIGKILL");
    await expect(everbeat.result(id, { timeout: 40_000 })).rejects.toMatchObject({
      code: "WORKER_CRASHED",
      error: { stack: expect.stringMatching(CHURN), runner: { signal: "SIGKILL" } },
    });
    const found = await eventually(() => everbeat.recovery.postMortems({ of: id }), {
      until: (rows) => rows.length > 0,
    });
    expect(found[0]).toMatchObject({ kind: "runner" });
    expect(found[0]?.evidence.join("\n")).toMatch(/last stack of its main thread:\n {4}at (?:.*\n {4}at )*churn \(/);
    await eventually(async () => (await everbeat.alerts.list({ open: true })).length === 0, { within: 20_000 });
    expect(await database.deaths()).toBe(0);
  });

  test("and killed at any moment around a look is recovered, and its replica goes on", async () => {
    const { database, run, everbeat } = await scene({ runIn: "process", onCrash: "fail", recovery: AT_ONCE });
    for (const afterMs of [380, 400, 420, 450, 480, 500, 520]) {
      const begunAt = performance.now();
      const { id, pid } = await run({ ms: ENDLESS });
      await eventually(() => performance.now() - begunAt > afterMs, { every: 1 });
      process.kill(pid, "SIGKILL");
      await expect(everbeat.result(id, { timeout: 40_000 })).rejects.toMatchObject({ code: "WORKER_CRASHED" });
    }
    const { id } = await run({ ms: 100 });
    expect(await everbeat.result(id, { timeout: 40_000 })).toBe("computed");
    await eventually(async () => (await everbeat.alerts.list({ open: true })).length === 0, { within: 20_000 });
    expect(await database.deaths()).toBe(0);
    await database.expectSound();
  });

  test("is on record also where its replica could not read for a while (SIGSTOP)", async () => {
    const patience = { runningStaleThreshold: 60_000, claimedStaleThreshold: 60_000, sessionEvidence: false };
    // Stopped long before there is something to read, and for longer than that takes.
    const recovery = { ...PATIENT, ...patience, blockedLoop: { stackAfter: 5_000 } };
    const { database, worker, run } = await scene({ runIn: "process", recovery });
    const { id } = await run({ ms: ENDLESS });
    worker.signal("SIGSTOP");
    onTestFinished(() => worker.signal("SIGCONT"));
    const stoppedAt = performance.now();
    await eventually(() => performance.now() - stoppedAt > 8_000, { every: 200, within: 20_000 });
    expect(await rowsOf(database, id)).toEqual([]);
    worker.signal("SIGCONT");
    expect(await untilNoted(database, id)).toMatchObject({ ended_at: null });
    expect(await rowsOf(database, id)).toHaveLength(1);
  });

  test("is not taken for one where it stands still (SIGSTOP): no JavaScript runs there, and nobody waits for an answer", async () => {
    const { database, worker, run, everbeat } = await scene({ runIn: "process" });
    const { id, pid } = await run({ ms: 0 });
    expect(await everbeat.result(id, { timeout: 20_000 })).toBe("computed");
    process.kill(pid, "SIGSTOP");
    expect(await worker.heard({ event: "runner.ended", pid }, 40_000)).toMatchObject({ because: "silent" });
    expect((await blockedRows(database)).filter(({ runner_id: runner }) => runner !== null)).toEqual([]);
    const { id: next } = await run({ ms: 0 });
    expect(await everbeat.result(next, { timeout: 20_000 })).toBe("computed");
  });
});
