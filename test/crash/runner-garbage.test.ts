/** A handler that writes to the descriptors of its runner, or closes them, harms its own runner at most, and nothing else. */
import { expect, test, vi } from "vitest";
import { openCrashDatabase } from "../support/crash-database.ts";
import { startRunnerWorker, task } from "../support/runner-worker.ts";

vi.setConfig({ testTimeout: 120_000 });

const HANDLERS = ["scribble", "scribbleEverywhere", "closeDescriptors", "wait", "look"] as const;

/** A worker with two runners, one of which is busy with a task that must not be harmed. */
async function startScene() {
  const { everbeat, url, expectSound } = await openCrashDatabase();
  const tasks = HANDLERS.map((handler) => ({ handler, runIn: "process" }) as const);
  const worker = await startRunnerWorker({ url, tasks, work: { runners: { processes: 2 } } });
  const resultOf = (id: string) => everbeat.result(id, { timeout: 60_000 }).catch((thrown: unknown) => thrown);
  const beside = await everbeat.enqueue(task("wait"), { ms: 3_000 });
  await worker.heard({ said: "begun", taskId: beside });
  /** The task beside it, and those that come after it on every runner, for longer than a runner takes to beat again. */
  const expectUnharmed = async () => {
    const next = [beside];
    for (const ms of [1, 1, 2_500, 2_500]) next.push(await everbeat.enqueue(task("wait"), { ms }));
    for (const id of next) expect(await resultOf(id)).toBe("waited");
    const last = await everbeat.enqueue(task("look"), { n: 1 });
    expect(await resultOf(last)).toMatchObject({ input: { n: 1 }, attempt: 1 });
    expect(worker.messages.filter(({ said, attempt }) => said === "begun" && attempt !== 1)).toEqual([]);
    await expectSound();
  };
  return { everbeat, worker, resultOf, expectUnharmed };
}

test.each([
  ["messages", 3, "random"],
  ["messages", 3, "lines"],
  ["messages", 3, "half"],
  ["messages", 3, "forged"],
  ["messages", 3, "endless"],
  ["beats", 4, "endless"],
])("in the pipe of %s (%i), %s garbage ends the runner and fails its task alone", async (_, fd, what) => {
  const { everbeat, worker, resultOf, expectUnharmed } = await startScene();
  const id = await everbeat.enqueue(task("scribble"), { fd, what });
  const { pid } = await worker.heard({ said: "begun", taskId: id });
  const error = await resultOf(id);
  expect(error).toMatchObject({ code: "WORKER_CRASHED", error: { because: "runner-ended", runner: { pid } } });
  expect((error as Error).message).toContain("wrote into the pipe between the runner and its worker");
  expect(await worker.heard({ event: "runner.ended", pid: pid as number })).toMatchObject({ because: "garbled" });
  await expectUnharmed();
});

test.each(["random", "lines", "half", "forged"])("in the pipe of beats, %s garbage is passed over", async (what) => {
  const { everbeat, worker, resultOf, expectUnharmed } = await startScene();
  const id = await everbeat.enqueue(task("scribble"), { fd: 4, what });
  expect(await resultOf(id)).toBe("scribbled");
  await expectUnharmed();
  expect(worker.messages.filter(({ event }) => event === "runner.ended")).toEqual([]);
});

test("in every descriptor of its process, garbage ends the runner and fails its task alone", async () => {
  const { everbeat, worker, resultOf, expectUnharmed } = await startScene();
  const id = await everbeat.enqueue(task("scribbleEverywhere"), {});
  await worker.heard({ said: "begun", taskId: id });
  expect(await resultOf(id)).toMatchObject({ code: "WORKER_CRASHED", error: { because: "runner-ended" } });
  await expectUnharmed();
});

test("a closed pipe of messages ends the runner, and fails its task alone", async () => {
  const { everbeat, worker, resultOf, expectUnharmed } = await startScene();
  const id = await everbeat.enqueue(task("closeDescriptors"), { fd: 3 });
  const { pid } = await worker.heard({ said: "begun", taskId: id });
  const error = await resultOf(id);
  expect(error).toMatchObject({ code: "WORKER_CRASHED", error: { because: "runner-ended", runner: { pid } } });
  expect((error as Error).message).toContain("a handler closed the pipe between the runner and its worker");
  expect(await worker.heard({ event: "runner.ended", pid: pid as number })).toMatchObject({ because: "garbled" });
  await expectUnharmed();
});

test("every descriptor of its process closed ends the runner, and fails its task alone", async () => {
  const { everbeat, worker, resultOf, expectUnharmed } = await startScene();
  const id = await everbeat.enqueue(task("closeDescriptors"), {});
  await worker.heard({ said: "begun", taskId: id });
  expect(await resultOf(id)).toMatchObject({ code: "WORKER_CRASHED", error: { because: "runner-ended" } });
  await expectUnharmed();
});
