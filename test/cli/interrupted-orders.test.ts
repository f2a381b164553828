/** Ctrl-C in an order to many tasks. */
import { expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { holding } from "../support/crash-database.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { startEverbeat } from "./run-cli.ts";

const { everbeat, database } = await openTestEverbeat();
const idle = defineTask({ name: "idle", run: async () => {} });

const waitsForLock = () =>
  eventually(
    () =>
      database.query("select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"),
    { until: ({ length }) => length > 0, what: "a session that waits for a lock" },
  );

function cancelAll(queue: string) {
  const cli = startEverbeat(["tasks", "cancel", "--queue", queue], { database: database.url });
  let stderr = "";
  cli.child.stderr?.on("data", (chunk: string) => {
    stderr += chunk;
  });
  return { ...cli, warned: () => eventually(() => stderr.includes("Stopping after this batch."), { within: 15_000 }) };
}

const enqueued = (queue: string, count: number) =>
  everbeat.enqueueMany(idle, Array.from({ length: count }), { options: { queue } });

test("ends after the batch that is under way, and says how far it has come; the same command does the rest", async () => {
  const ids = await enqueued("half", 1_200);
  // The newest come first: this one is in the second batch.
  const lock = await holding(database.url, `select from everbeat.ready where task_id = '${ids[500]}' for update`);
  const { child, warned, ended } = cancelAll("half");
  await waitsForLock();
  child.kill("SIGINT");
  await warned();
  await lock.release();
  expect(await ended).toMatchObject({
    code: 130,
    stdout: "",
    stderr: expect.stringContaining(
      "✗ Stopped: 1,000 of 1,200 tasks are done. The same command goes on with the rest.\n",
    ),
  });
  expect((await cancelAll("half").ended).stdout).toMatch(/\n200 cancelled\n$/);
});

test("ends at once at the second Ctrl-C, also where a batch waits for somebody", async () => {
  const ids = await enqueued("at-once", 600);
  const lock = await holding(database.url, `select from everbeat.ready where task_id = '${ids[0]}' for update`);
  const { child, warned, ended } = cancelAll("at-once");
  await waitsForLock();
  child.kill("SIGINT");
  await warned();
  child.kill("SIGINT");
  expect(await ended).toMatchObject({
    code: 130,
    stderr: expect.stringContaining("Stopped: 500 of 600 tasks are done, and perhaps some more."),
  });
  await lock.release();
});

test("ends at once before the first batch, with nothing done", async () => {
  const [id] = await enqueued("not-begun", 1);
  const lock = await holding(database.url, "lock table everbeat.running in access exclusive mode");
  const { child, ended } = cancelAll("not-begun");
  await waitsForLock();
  child.kill("SIGINT");
  expect(await ended).toMatchObject({
    code: 130,
    stderr: expect.stringContaining("✗ Stopped before anything was done. The same command does it.\n"),
  });
  await lock.release();
  expect((await everbeat.tasks.show(id as string)).state).toBe("pending");
});
