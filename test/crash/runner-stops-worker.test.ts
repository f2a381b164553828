/** A handler in a runner that makes its worker leave in good order: nobody but `process.kill` in that runner can tell who it was. */
import { describe, expect, test, vi } from "vitest";
import { openCrashDatabase } from "../support/crash-database.ts";
import { startRunnerWorker, task } from "../support/runner-worker.ts";

vi.setConfig({ testTimeout: 120_000 });

const WORK = { shutdownGrace: 200, abortGrace: 300, runners: { processes: 1, threads: 1 } } as const;

describe.each([
  ["process", "parent"],
  ["thread", "own"],
] as const)("a handler in a %s that signals its worker (its %s process)", (runIn, who) => {
  test.each(["SIGTERM", "SIGHUP"])("by %s is charged with the stop", async (signal) => {
    const database = await openCrashDatabase();
    const { everbeat, url } = database;
    const id = await everbeat.enqueue(task("stopWorker"), { who, signal });
    const worker = await startRunnerWorker({ url, tasks: [{ handler: "stopWorker", runIn }], work: WORK });
    await worker.exited;
    const shown = await everbeat.tasks.show(id);
    expect(shown).toMatchObject({ state: "failed", crashes: 1, error: { because: "stopped-by-task" } });
    await database.expectSound();
  });
});

test("a handler that signals its own runner's process stops nobody, and is not charged when its worker is stopped later", async () => {
  const database = await openCrashDatabase();
  const { everbeat, url } = database;
  const id = await everbeat.enqueue(task("stopWorker"), { who: "own", signal: "SIGTERM" });
  const tasks = [{ handler: "stopWorker", runIn: "process" }, { handler: "look" }] as const;
  const worker = await startRunnerWorker({ url, tasks, work: WORK });
  await worker.heard({ said: "signalled", taskId: id });
  // The worker goes on after the signal.
  await everbeat.result(await everbeat.enqueue(task("look"), {}), { timeout: 30_000 });
  worker.signal("SIGTERM");
  await worker.exited;
  expect(await everbeat.tasks.show(id)).toMatchObject({ state: "pending", crashes: 0 });
});
