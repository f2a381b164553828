/** Cancelling what runs in another process. */
import { describe, expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { holding, openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { KEEPS_AHEAD, startWorker, task } from "../support/worker-process.ts";

const hold = task("hold");
const deaf = task("deaf");

async function startCancellable() {
  const database = await openCrashDatabase();
  const worker = await startWorker({
    url: database.url,
    // The notice has to bring it: the worker's own look would come too late.
    work: { pollInterval: "1m", abortGrace: 500, concurrency: 1 },
    tasks: [{ handler: "hold" }, { handler: "deaf" }],
    forward: ["handler.abandoned", "task.ended", "claim.lost"],
  });
  return { database, worker };
}

describe("a running task that is cancelled", () => {
  test("is told through its signal, and ends as cancelled", async () => {
    const { database, worker } = await startCancellable();
    const id = await database.everbeat.enqueue(hold, {});
    await worker.heard({ handler: "begun" });
    expect(await database.everbeat.tasks.cancel(id)).toEqual([{ id, outcome: "cancelling" }]);
    await expect(database.everbeat.result(id)).rejects.toMatchObject({ state: "cancelled", code: "TASK_CANCELLED" });
    expect(await worker.heard({ event: "task.ended" })).toMatchObject({ taskId: id, outcome: "cancelled" });
    await database.expectSound();
  });

  test("is given up when its handler ignores the signal, and its slot is free for others", async () => {
    const { database, worker } = await startCancellable();
    const id = await database.everbeat.enqueue(deaf, {});
    await worker.heard({ handler: "begun" });
    await database.everbeat.tasks.cancel(id);
    expect(await worker.heard({ handler: "aborted" })).toMatchObject({ code: "TASK_CANCELLED" });
    await expect(database.everbeat.result(id)).rejects.toMatchObject({ state: "cancelled" });
    expect(await worker.heard({ event: "handler.abandoned" })).toMatchObject({ taskId: id });
    const next = await database.everbeat.enqueue(hold, {});
    await worker.heard({ handler: "begun", taskId: next });
    // What the deaf handler returns in the end counts for nothing.
    worker.release();
    expect(await database.everbeat.tasks.show(id)).toMatchObject({ state: "cancelled", late: [] });
    await database.expectSound();
  });

  test("does not run again when it fails at that very moment", async () => {
    const { database, worker } = await startCancellable();
    const failing = defineTask({ name: "failing", retry: { attempts: 5, delay: 0 }, run: async (_: object) => {} });
    let request: Awaited<ReturnType<typeof holding>> | undefined;
    const own = await database.everbeat.work(
      [
        defineTask({
          name: "failing",
          retry: { attempts: 5, delay: 0 },
          run: async (_: object, { task }) => {
            // Asked for after the attempt has begun, and to be heard of only when its end is already on its way.
            request = await holding(
              database.url,
              `update everbeat.running set cancel_requested_at = now() where task_id = '${task.id}'`,
            );
            throw new Error("by itself");
          },
        }),
      ],
      { handleSignals: false, pollInterval: "1m" },
    );
    const id = await database.everbeat.enqueue(failing, {});
    const ending = "pg_stat_activity where wait_event_type = 'Lock' and query like '%end_claims(%'";
    await eventually(() => database.count(`${ending} and datname = current_database()`), { what: "its end" });
    await request?.release();
    await expect(database.everbeat.result(id)).rejects.toMatchObject({ state: "cancelled", code: "TASK_CANCELLED" });
    const shown = await database.everbeat.tasks.show(id);
    expect(shown).toMatchObject({ attempt: 1, error: { cause: { message: "by itself" } } });
    await own.stop();
    expect(worker.messages.filter((message) => message.event)).toEqual([]);
    await database.expectSound();
  });

  test("ends at once where it was only claimed ahead, and its worker does not start it", async () => {
    const database = await openCrashDatabase();
    const worker = await startWorker({
      url: database.url,
      work: { concurrency: 1, prefetch: 1, ...KEEPS_AHEAD },
      tasks: [{ handler: "deaf" }],
      forward: ["task.ended"],
    });
    const [first, second] = await database.everbeat.enqueueMany(deaf, [{}, {}]);
    await eventually(() => database.count("everbeat.running where state = 'claimed'"), { until: (n) => n === 1 });
    expect(await database.everbeat.tasks.cancel(second as string)).toMatchObject([{ outcome: "cancelled" }]);
    worker.release();
    await database.everbeat.result(first as string);
    expect(worker.messages.filter((message) => message.taskId === second)).toEqual([]);
    await database.expectSound();
  });
});
