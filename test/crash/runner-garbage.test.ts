/** A handler that writes to the descriptors of its runner, or closes them, harms its own runner at most, and nothing else. */
import { expect, test, vi } from "vitest";
import { openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { startRunnerWorker, task } from "../support/runner-worker.ts";
import { SCALED } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 120_000 });

const HANDLERS = ["scribble", "scribbleEverywhere", "closeDescriptors", "wait", "obey", "look"] as const;

/** By so much what is on record of one and the same beat may differ. */
const A_MOMENT_MS = 50;

/** A worker with two runners, one of which is busy with a task that must not be harmed. */
async function startScene() {
  const { everbeat, url, expectSound } = await openCrashDatabase();
  const tasks = HANDLERS.map((handler) => ({ handler, runIn: "process" }) as const);
  const worker = await startRunnerWorker({
    url,
    open: { recovery: SCALED },
    tasks,
    work: { runners: { processes: 2 } },
  });
  const resultOf = (id: string) => everbeat.result(id, { timeout: 60_000 }).catch((thrown: unknown) => thrown);
  const beside = await everbeat.enqueue(task("obey"), {});
  await worker.heard({ said: "begun", taskId: beside });
  /** The last beat on record of each runner that is alive. */
  const beats = async () => {
    const alive = (await everbeat.runners()).filter(({ status }) => status !== "ended");
    return new Map(alive.map(({ id, beatAt }) => [id, Number(beatAt)]));
  };
  /** The task beside it, and those that come after it, on every runner; and all runners are heard again after what was written. */
  const expectUnharmed = async () => {
    const before = await beats();
    for (let index = 0; index < 2; index++)
      expect(await resultOf(await everbeat.enqueue(task("wait"), { ms: 1 }))).toBe("waited");
    await eventually(beats, {
      until: (now) => now.size === 2 && [...now].every(([id, at]) => at > (before.get(id) ?? 0) + A_MOMENT_MS),
      ...{ within: 30_000, what: "a beat of each runner" },
    });
    expect(await everbeat.tasks.show(beside)).toMatchObject({ state: "running", attempt: 1 });
    await everbeat.tasks.cancel(beside);
    expect(await resultOf(beside)).toMatchObject({ state: "cancelled" });
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
