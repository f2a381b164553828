/** A task that has ended and left something behind that ends the process: whoever runs there then is not to blame. */
import { expect, test, vi } from "vitest";
import { openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { startSupervisor, task as underSupervisor } from "../support/supervisor.ts";
import { forkWorker, PATIENT, startWorker, task } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 120_000 });

const AGAIN = { onCrash: "requeue" } as const;

test.each([
  ["alone", 1],
  ["in a batch", 2],
])(
  "a task that runs when process.exit() is called by what others %s have left behind is never charged",
  async (_, batchSize) => {
    const database = await openCrashDatabase();
    const { everbeat, url } = database;
    // It recovers the tasks of the others.
    await startWorker({ url, open: { recovery: PATIENT }, tasks: [{ handler: "quick" }] });
    const innocent = await everbeat.enqueue(task("wait"), { ms: 60_000 });
    const tasks = [
      { handler: "leaveExit", ...AGAIN, batchSize },
      { handler: "wait", ...AGAIN },
    ] as const;
    for (let attempt = 1; attempt <= 4; attempt++) {
      const [bomb = ""] = await everbeat.enqueueMany(task("leaveExit"), [{}, {}]);
      const worker = forkWorker({ url, open: { recovery: PATIENT }, tasks, work: { concurrency: 2 } });
      await everbeat.result(bomb, { timeout: 30_000 });
      await worker.heard({ handler: "begun", taskId: innocent });
      worker.release();
      expect(await worker.exited).toEqual({ code: 1, signal: null });
      const shown = await eventually(() => everbeat.tasks.show(innocent), {
        ...{ until: ({ state }) => state === "pending", within: 30_000 },
      });
      expect(shown).toMatchObject({ attempt, crashes: 0 });
      const error = shown.attempts.at(-1)?.error;
      expect(error?.message).toMatch(
        /Task \S+ \(leaveExit\) ended the process: it had ended before, .* process\.exit\(1\)/,
      );
    }
    expect(await database.query("select from everbeat.suspicion")).toEqual([]);
    const words = (await everbeat.recovery.explain(innocent)).evidence.join("\n");
    expect(words).toMatch(/no crash is charged: leaveExit \S+, which had ended before, had called process\.exit\(\)/);
  },
);

test("nor is it under a supervisor, which sees the exit", async () => {
  const database = await openCrashDatabase();
  const { everbeat, url } = database;
  const innocent = await everbeat.enqueue(underSupervisor("hold"), {});
  const bomb = await everbeat.enqueue(underSupervisor("leaveExit"), { ms: 1_500 });
  await startSupervisor({ url, processes: 1 });
  await everbeat.result(bomb, { timeout: 60_000 });
  const shown = await eventually(() => everbeat.tasks.show(innocent), {
    ...{ until: ({ attempt, state }) => attempt === 2 && state === "running", within: 60_000 },
  });
  expect(shown).toMatchObject({ crashes: 0 });
  expect(shown.attempts[0]?.error).toMatchObject({ because: "exited", exitCode: 1, exitCall: { taskId: bomb } });
});

test("a task that calls process.exit() itself, while it runs, is charged, and so is one that runs when the application does", async () => {
  const database = await openCrashDatabase();
  const { everbeat, url } = database;
  await startWorker({ url, open: { recovery: PATIENT }, tasks: [{ handler: "quick" }] });
  const tasks = [
    { handler: "die", ...AGAIN },
    { handler: "wait", ...AGAIN },
  ] as const;
  const crashesAfter = async (id: string) => {
    const shown = await eventually(() => everbeat.tasks.show(id), {
      ...{ until: ({ state }) => state === "pending", within: 30_000 },
    });
    return shown.crashes;
  };
  const own = await everbeat.enqueue(task("die"), { how: "exit" });
  await forkWorker({ url, open: { recovery: PATIENT }, tasks }).exited;
  expect(await crashesAfter(own)).toBe(1);
  await everbeat.tasks.cancel([own]);
  const other = await everbeat.enqueue(task("wait"), { ms: 60_000 });
  const worker = forkWorker({ url, open: { recovery: PATIENT }, tasks });
  await worker.heard({ handler: "begun", taskId: other });
  worker.blunder("exit");
  expect(await worker.exited).toEqual({ code: 4, signal: null });
  expect(await crashesAfter(other)).toBe(1);
});
