/** What a handler leaves behind may fail when its attempt has ended: that is told of, ends no process, and changes no outcome. */
import { expect, test } from "vitest";
import { openCrashDatabase } from "../support/crash-database.ts";
import { startRunnerWorker, task } from "../support/runner-worker.ts";

test.each([
  ["timer", "thread"],
  ["promise", "thread"],
  ["timer", "process"],
  ["promise", "process"],
] as const)("a %s in a %s", async (how, runIn) => {
  const { everbeat, url } = await openCrashDatabase();
  const worker = await startRunnerWorker({ url, tasks: [{ handler: "failLater", runIn }] });
  const taskId = await everbeat.enqueue(task("failLater"), { how });
  expect(await everbeat.result(taskId)).toBe("done");
  const late = { event: "handler.failed-after-end", name: "failLater", taskId, attempt: 1 } as const;
  expect(await worker.heard(late)).toMatchObject({ reason: expect.stringContaining(`late from a ${how}`) });
  expect(await worker.heard({ event: "runner.ended" })).toMatchObject({ because: "recycled", exitCode: 0 });
  expect(await everbeat.tasks.show(taskId)).toMatchObject({ state: "completed", attempt: 1 });
});
