/** Runners have hearts too: a runner that stands still is ended, a blocked one is seen to be so, and none outlives its replica. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { openCrashDatabase } from "../support/crash-database.ts";
import { startCuttingProxy } from "../support/cutting-proxy.ts";
import { eventually } from "../support/eventually.ts";
import { isAlive } from "../support/processes.ts";
import { startRunnerWorker, task } from "../support/runner-worker.ts";
import { PATIENT, SCALED } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 120_000 });
const open = { recovery: SCALED };

describe("a runner", () => {
  test("that is stopped (SIGSTOP) is ended when its heart has been silent for too long", async () => {
    const { everbeat, url, expectSound } = await openCrashDatabase();
    const worker = await startRunnerWorker({ url, open, tasks: [{ handler: "never", runIn: "process" }] });
    const id = await everbeat.enqueue(task("never"), {});
    const { pid } = await worker.heard({ said: "begun", taskId: id });
    process.kill(pid as number, "SIGSTOP");
    const error = await everbeat.result(id, { timeout: 40_000 }).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      code: "WORKER_CRASHED",
      error: { because: "runner-silent", silentForMs: expect.any(Number), runner: { pid, signal: "SIGKILL" } },
    });
    expect((error as { error: { silentForMs: number } }).error.silentForMs).toBeGreaterThan(3_000);
    expect(isAlive(pid as number)).toBe(false);
    expect(await worker.heard({ event: "runner.ended", pid: pid as number })).toMatchObject({ because: "silent" });
    // Its own worker killed it, and knows why.
    const ofRunner = async () => (await everbeat.recovery.postMortems({ kind: "runner" }))[0];
    expect(await eventually(ofRunner)).toMatchObject({
      cause: "fell-silent",
      sentence: expect.stringMatching(/^The process was not heard for .* and its worker ended it/),
    });
    await expectSound();
  });

  test("whose loop is blocked goes on beating, is shown as blocked, and is left alone", async () => {
    const { everbeat, url, query } = await openCrashDatabase();
    const worker = await startRunnerWorker({ url, open, tasks: [{ handler: "spin", runIn: "process" }] });
    const id = await everbeat.enqueue(task("spin"), {});
    const { pid } = await worker.heard({ said: "begun", taskId: id });
    const row = await eventually(async () => (await everbeat.runners()).find((runner) => runner.pid === pid), {
      until: (runner) => (runner?.vitals?.["blockedForMs"] ?? 0) > 5_000,
      within: 40_000,
    });
    expect(row).toMatchObject({ status: "busy", kind: "process", replicaId: worker.replicaId, endedAt: null });
    const [beat] = await query(
      "select sender_id::text, role, pid, sent_at from everbeat.heartbeats where task_id = $1",
      [id],
    );
    expect(beat).toMatchObject({ sender_id: row?.id, role: "runner", pid });
    expect((await everbeat.tasks.show(id)).state).toBe("running");
    expect(isAlive(pid as number)).toBe(true);
  });

  test("beats through its replica's heart: one connection of hearts, however many runners", async () => {
    const { everbeat, url, query } = await openCrashDatabase();
    const tasks = [{ handler: "never", runIn: "process" as const }];
    const worker = await startRunnerWorker({ url, open, tasks, work: { runners: { processes: 3 } } });
    const ids = await everbeat.enqueueMany(task("never"), [{}, {}, {}]);
    for (const taskId of ids) await worker.heard({ said: "begun", taskId });
    const beating = () => query("select 1 from everbeat.runner where status = 'busy' and beat_at > started_at");
    await eventually(beating, { until: (rows) => rows.length === 3, within: 30_000 });
    const hearts = await query(
      "select pid from pg_stat_activity where datname = current_database() and application_name = 'everbeat heart'",
    );
    expect(hearts).toHaveLength(1);
  });

  test("is not blamed for a time in which its replica could not hear it", async () => {
    const { everbeat, url } = await openCrashDatabase();
    const worker = await startRunnerWorker({ url, open, tasks: [{ handler: "wait", runIn: "process" }] });
    const id = await everbeat.enqueue(task("wait"), { ms: 8_000 });
    await worker.heard({ said: "begun", taskId: id });
    worker.block(5_000);
    expect(await everbeat.result(id, { timeout: 40_000 })).toBe("waited");
    expect(worker.messages.some(({ event }) => event === "runner.ended")).toBe(false);
  });
});

describe("a replica that is killed", () => {
  test.each(["append", "spin"])("takes its runner with it (%s), and the task is recovered once", async (handler) => {
    const folder = mkdtempSync(join(tmpdir(), "everbeat-orphan-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const file = join(folder, "lines");
    const { everbeat, url, expectSound } = await openCrashDatabase();
    const tasks = [{ handler, runIn: "process" as const }];
    const first = await startRunnerWorker({ url, open, tasks });
    const id = await everbeat.enqueue(task(handler), { file });
    const { pid } = await first.heard({ said: "begun", taskId: id });
    const second = await startRunnerWorker({ url, open, tasks: [{ handler: "look" }] });
    await first.kill();
    await eventually(() => !isAlive(pid as number), { within: 20_000, what: "the end of the runner" });
    const lines = () => (handler === "append" ? readFileSync(file, "utf8").length : 0);
    const written = lines();
    await expect(everbeat.result(id, { timeout: 40_000 })).rejects.toMatchObject({
      code: "WORKER_CRASHED",
      error: { replicaId: first.replicaId },
    });
    expect(lines()).toBe(written);
    expect((await everbeat.tasks.show(id)).attempts).toHaveLength(1);
    await second.kill();
    await expectSound();
  });
});

/** Two replicas and a runner that appends its claim to a file, deaf to its signal; what is then done to the first is the test's. */
async function appendScene(through: (url: string) => Promise<string>) {
  const folder = mkdtempSync(join(tmpdir(), "everbeat-append-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "lines");
  const database = await openCrashDatabase();
  const tasks = [{ handler: "append", runIn: "process" as const, onCrash: "requeue" as const }];
  const work = { concurrency: 1 };
  const first = await startRunnerWorker({ url: await through(database.url), open, tasks, work });
  const id = await database.everbeat.enqueue(task("append"), { file });
  const pid = (await first.heard({ said: "begun", taskId: id })).pid as number;
  // It has to go on for some time, whatever else the machine does.
  const second = await startRunnerWorker({ url: database.url, open: { recovery: PATIENT }, tasks, work });
  const lines = () => readFileSync(file, "utf8").trimEnd().split("\n");
  return {
    ...{ database, first, id, pid },
    async expectTakenOver(): Promise<void> {
      await second.heard({ said: "begun", taskId: id });
      const old = lines()[0];
      await eventually(() => lines().filter((claim) => claim !== old).length > 50, { within: 20_000 });
      expect(isAlive(pid)).toBe(false);
      // In the order of their claims: never a line of the old one after the first of the new.
      expect(lines()).toEqual([...lines()].sort((a, b) => Number(a) - Number(b)));
      expect(new Set(lines()).size).toBe(2);
      const [row] = await database.query("select crashes, failures from everbeat.tasks where id = $1", [id]);
      expect(row).toMatchObject({ failures: 0 });
    },
  };
}

describe("a replica with a runner on what others may repeat", () => {
  test("that is stopped (SIGSTOP): the runner ends itself before they do", async () => {
    const { first, pid, database, expectTakenOver } = await appendScene(async (url) => url);
    first.signal("SIGSTOP");
    onTestFinished(() => first.signal("SIGCONT"));
    await expectTakenOver();
    first.signal("SIGCONT");
    // Awake again, it learns that it was taken for dead; it may have to end itself before it can say so.
    await Promise.race([first.exited, first.heard({ event: "runner.ended", pid, because: "cut-off" })]);
    await database.expectSound();
  });

  test("that is cut off from the database: it ends its runner before they do, or itself and its runner with it", async () => {
    let cut = () => {};
    const { database, expectTakenOver } = await appendScene(async (url) => {
      const proxy = await startCuttingProxy(url);
      cut = () => proxy.cut("both");
      return proxy.url;
    });
    cut();
    await expectTakenOver();
    await database.expectSound();
  });
});

describe("a replica that was declared dead", () => {
  test("ends what runs in its runners, which nobody may go on with, and works on under another id", async () => {
    const { everbeat, url, query, expectSound } = await openCrashDatabase();
    const tasks = [{ handler: "spin", runIn: "process" as const, onCrash: "requeue" as const }];
    const worker = await startRunnerWorker({ url, open, tasks, work: { runners: { processes: 1 } } });
    const id = await everbeat.enqueue(task("spin"), {});
    const { pid } = await worker.heard({ said: "begun", taskId: id });
    await query(`update everbeat.heart set is_dead = true where replica_id = $1`, [worker.replicaId]);
    await query(`update everbeat.replica set status = 'dead', died_at = now() where id = $1`, [worker.replicaId]);
    await worker.heard({ event: "beat.refused" });
    await eventually(() => !isAlive(pid as number), { within: 20_000, what: "the end of the runner" });
    expect(await worker.heard({ event: "runner.ended", pid: pid as number })).toMatchObject({ because: "aborted" });
    // It comes back under another id, and its task is run again.
    await worker.heard({ event: "replica.rejoined" });
    const again = await eventually(() => worker.messages.filter(({ said }) => said === "begun")[1], { within: 30_000 });
    expect(again).toMatchObject({ taskId: id, attempt: 2 });
    await expectSound();
  });
});
