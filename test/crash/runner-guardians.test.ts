/** Guardians of runners: what holds where one is killed, or cannot be started. */
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { guardianOf, isAlive } from "../support/processes.ts";
import { startRunnerWorker, task } from "../support/runner-worker.ts";

vi.setConfig({ testTimeout: 120_000 });

const TASKS = [
  { handler: "leaveBehind", runIn: "process" },
  { handler: "look", runIn: "process" },
] as const;
const NO_GUARDIAN = fileURLToPath(new URL("../support/no-guardian.js", import.meta.url));

/** A task whose handler has started a process, which writes on. */
async function leaveBehind(how: string, nodeArguments: readonly string[] = []) {
  const database = await openCrashDatabase();
  const { everbeat, url } = database;
  const work = { runners: { processes: 1 } };
  const worker = await startRunnerWorker({ url, tasks: TASKS, work, nodeArguments });
  const id = await everbeat.enqueue(task("leaveBehind"), { file: "/dev/null", how });
  const left = (await worker.heard({ said: "left behind", taskId: id }))["left"] as number;
  onTestFinished(() => void (isAlive(left) && process.kill(left, "SIGKILL")));
  const runner = (await worker.heard({ said: "begun", taskId: id })).pid as number;
  return { everbeat, worker, id, left, runner };
}

const gone = (pid: number) => eventually(() => !isAlive(pid), { within: 20_000, what: `the end of process ${pid}` });

describe("a runner whose guardian was killed", () => {
  test("goes on, and what it leaves ends with it", async () => {
    const { everbeat, worker, id, left, runner } = await leaveBehind("return");
    const guardian = guardianOf(runner);
    process.kill(guardian, "SIGKILL");
    await gone(guardian);
    await everbeat.result(id, { timeout: 30_000 });
    const next = await everbeat.enqueue(task("look"), {});
    expect(await everbeat.result(next, { timeout: 30_000 })).toMatchObject({ pid: runner });
    expect(isAlive(left)).toBe(true);
    worker.close();
    expect(await worker.exited).toEqual({ code: 0, signal: null });
    expect(isAlive(left)).toBe(false);
    expect((await everbeat.runners()).map(({ exit }) => exit)).toEqual([{ code: 0, signal: null, because: "stopped" }]);
  });

  test("just before the runner was: nothing is left, whichever the worker sees first", async () => {
    const { everbeat, worker, id, left, runner } = await leaveBehind("never");
    worker.signal("SIGSTOP");
    process.kill(guardianOf(runner), "SIGKILL");
    process.kill(runner, "SIGKILL");
    await gone(runner);
    worker.signal("SIGCONT");
    await expect(everbeat.result(id, { timeout: 30_000 })).rejects.toMatchObject({ code: "WORKER_CRASHED" });
    expect(isAlive(left)).toBe(false);
  });
});

test("what a runner leaves when it is killed ends also where its guardian is stopped, and hears nothing", async () => {
  const { everbeat, worker, id, left, runner } = await leaveBehind("never");
  const guardian = guardianOf(runner);
  onTestFinished(() => void (isAlive(guardian) && process.kill(guardian, "SIGKILL")));
  process.kill(guardian, "SIGSTOP");
  process.kill(runner, "SIGKILL");
  await expect(everbeat.result(id, { timeout: 30_000 })).rejects.toMatchObject({ code: "WORKER_CRASHED" });
  await worker.heard({ event: "runner.ended", pid: runner });
  await gone(left);
  await gone(guardian);
});

describe.each(["missing", "not executable", "refused at once"])("where the shell for a guardian is %s", (how) => {
  const nodeArguments = ["--import", `${new URL(`file://${NO_GUARDIAN}`)}?how=${encodeURIComponent(how)}`];

  test("runners work without one, and what they leave when they crash ends", async () => {
    const { everbeat, id, left, runner } = await leaveBehind("exit", nodeArguments);
    expect(() => guardianOf(runner)).toThrow("no guardian");
    await expect(everbeat.result(id, { timeout: 30_000 })).rejects.toMatchObject({ code: "WORKER_CRASHED" });
    expect(isAlive(left)).toBe(false);
  });

  test("runners leave when they are told to, and at once", async () => {
    const { everbeat, worker, id, left } = await leaveBehind("return", nodeArguments);
    await everbeat.result(id, { timeout: 30_000 });
    worker.close();
    expect(await worker.exited).toEqual({ code: 0, signal: null });
    expect(isAlive(left)).toBe(false);
    expect((await everbeat.runners()).map(({ exit }) => exit)).toEqual([{ code: 0, signal: null, because: "stopped" }]);
  });
});
