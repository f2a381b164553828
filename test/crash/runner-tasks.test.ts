/** The same task inline, in a thread and in a process: the same input, context, result and errors. */
import { describe, expect, test } from "vitest";
import { openCrashDatabase } from "../support/crash-database.ts";
import { startRunnerWorker, task } from "../support/runner-worker.ts";

describe.each(["thread", "process"] as const)("a task in a %s", (runIn) => {
  test("is given what it would be given inline, and its result comes back", async () => {
    const { everbeat, url, expectSound } = await openCrashDatabase();
    const worker = await startRunnerWorker({ url, tasks: [{ handler: "look", runIn }] });
    const id = await everbeat.enqueue(task("look"), { deep: [1, { zero: "\0" }] }, { metadata: { from: "test" } });
    const result = (await everbeat.result(id, { timeout: 30_000 })) as Record<string, unknown>;
    const shown = await everbeat.tasks.show(id);
    expect(result).toMatchObject({
      input: { deep: [1, { zero: "\0" }] },
      taskId: id,
      attempt: 1,
      metadata: { from: "test" },
      enqueuedAt: shown.createdAt.toISOString(),
    });
    if (runIn === "process") expect(result["pid"]).not.toBe(worker.pid);
    else expect(result).toMatchObject({ pid: worker.pid, threadId: expect.any(Number) });
    expect(result["threadId"] === 0).toBe(runIn === "process");
    await expectSound();
  });
});
