/** What a thread does to its heap: a result that is too large fails its task alone, and what Node cannot contain is told of as what it is. */
import { expect, test, vi } from "vitest";
import { openCrashDatabase } from "../support/crash-database.ts";
import { startRunnerWorker, task } from "../support/runner-worker.ts";

vi.setConfig({ testTimeout: 120_000 });
const work = { runners: { threads: 1, processes: 1, heapLimit: "48MB" } } as const;

test.each([
  ["thread", "text"],
  ["thread", "buffer"],
  ["process", "text"],
] as const)("a %s whose result (a %s) is larger than its heap as text fails that task alone", async (runIn, how) => {
  const { everbeat, url, expectSound } = await openCrashDatabase();
  const tasks = [
    { handler: "giveMuch", runIn },
    { handler: "look", runIn },
  ] as const;
  const worker = await startRunnerWorker({ url, tasks, work });
  const id = await everbeat.enqueue(task("giveMuch"), { how });
  const { pid, threadId } = await worker.heard({ said: "begun", taskId: id });
  await expect(everbeat.result(id, { timeout: 30_000 })).rejects.toMatchObject({
    code: "RESULT_NOT_STORABLE",
    message: expect.stringContaining("at most 1048576 are allowed"),
  });
  const next = await everbeat.result(await everbeat.enqueue(task("look"), {}), { timeout: 30_000 });
  expect(next).toMatchObject({ pid, threadId });
  expect((await everbeat.replicas()).map(({ status }) => status)).toEqual(["online"]);
  await expectSound();
});

test("a thread that returns a String object larger than its heap fails that task alone", async () => {
  const { everbeat, url } = await openCrashDatabase();
  await startRunnerWorker({ url, tasks: [{ handler: "giveMuch", runIn: "thread" }], work });
  const id = await everbeat.enqueue(task("giveMuch"), { how: "String" });
  await expect(everbeat.result(id, { timeout: 30_000 })).rejects.toMatchObject({ code: "RESULT_NOT_STORABLE" });
  expect((await everbeat.replicas()).map(({ status }) => status)).toEqual(["online"]);
});

test("what a thread throws or logs may be larger than its heap as text: each such task fails alone", async () => {
  const { everbeat, url, expectSound } = await openCrashDatabase();
  await startRunnerWorker({ url, tasks: [{ handler: "throwMuch", runIn: "thread" }], work });
  for (const how of ["message", "cause", "stack", "name", "text", "String", "list", "log"]) {
    const id = await everbeat.enqueue(task("throwMuch"), { how });
    const error = await everbeat.result(id, { timeout: 60_000 }).catch((thrown: unknown) => thrown);
    expect([how, error]).toMatchObject([how, { state: "failed", error: { code: expect.any(String) } }]);
    expect([how, error]).not.toMatchObject([how, { error: { code: "WORKER_CRASHED" } }]);
  }
  expect((await everbeat.replicas()).map(({ status }) => status)).toEqual(["online"]);
  await expectSound();
});

test("a worker that a thread has aborted: the post-mortem and explain name the thread's task as the probable cause", async () => {
  const { everbeat, url, expectSound } = await openCrashDatabase();
  const tasks = [{ handler: "fillAtOnce", runIn: "thread" }, { handler: "wait" }] as const;
  const worker = await startRunnerWorker({ url, tasks: [...tasks, { handler: "never", runIn: "process" }], work });
  const beside = await everbeat.enqueue(task("never"), {});
  await worker.heard({ said: "begun", taskId: beside });
  const id = await everbeat.enqueue(task("fillAtOnce"), {});
  const exit = await worker.exited;
  // Which of these it is depends on the version of Node.
  expect(["SIGABRT", "SIGTRAP"]).toContain(exit.signal);
  await everbeat.recovery.reportExit(worker.replicaId, { exitCode: exit.code, signal: exit.signal });
  const [ofReplica] = await everbeat.recovery.postMortems({ of: worker.replicaId });
  expect(ofReplica).toMatchObject({ kind: "replica", cause: "aborted" });
  expect(ofReplica?.sentence).toBe(
    `The process aborted itself (${exit.signal}), probably because of task ${id} (fillAtOnce), which ran in a thread of it: a thread that fills its heap at once takes the whole process with it.`,
  );
  expect(ofReplica?.evidence).toContain(`in a thread of it ran: ${id} (fillAtOnce)`);
  for (const each of [id, beside]) {
    expect((await everbeat.recovery.postMortems({ of: each }))[0]?.sentence).toBe(ofReplica?.sentence);
    expect((await everbeat.recovery.explain(each)).summary).toContain(ofReplica?.sentence);
  }
  await expectSound();
});
