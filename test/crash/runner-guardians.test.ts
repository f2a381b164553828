/** Guardians of runners: what holds where one is killed, or cannot be started. */
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { leaveBehind } from "../support/left-behind.ts";
import { gone, guardianOf, isAlive, isOver } from "../support/processes.ts";
import { task } from "../support/runner-worker.ts";

vi.setConfig({ testTimeout: 120_000 });

const NO_GUARDIAN = fileURLToPath(new URL("../support/no-guardian.js", import.meta.url));

describe("a runner whose guardian was killed", () => {
  test("goes on, and what it leaves ends with it", async () => {
    const { database, worker, id, left, runner } = await leaveBehind({ how: "return" });
    const { everbeat } = database;
    const guardian = guardianOf(runner);
    process.kill(guardian, "SIGKILL");
    await gone(guardian);
    await everbeat.result(id, { timeout: 30_000 });
    const next = await everbeat.enqueue(task("look"), {});
    expect(await everbeat.result(next, { timeout: 30_000 })).toMatchObject({ pid: runner });
    expect(isAlive(left)).toBe(true);
    worker.close();
    expect(await worker.exited).toEqual({ code: 0, signal: null });
    expect(isOver(left)).toBe(true);
    expect((await everbeat.runners()).map(({ exit }) => exit)).toEqual([{ code: 0, signal: null, because: "stopped" }]);
  });

  test("just before the runner was, so that the worker sees both ends at once: nothing is left", async () => {
    const { database, worker, id, left, runner } = await leaveBehind();
    worker.signal("SIGSTOP");
    process.kill(guardianOf(runner), "SIGKILL");
    process.kill(runner, "SIGKILL");
    await gone(runner);
    worker.signal("SIGCONT");
    await expect(database.everbeat.result(id, { timeout: 30_000 })).rejects.toMatchObject({ code: "WORKER_CRASHED" });
    expect(isOver(left)).toBe(true);
  });
});

test("what a runner leaves when it is killed ends also where its guardian is stopped, and hears nothing", async () => {
  const { database, worker, id, left, runner } = await leaveBehind();
  const guardian = guardianOf(runner);
  onTestFinished(() => void (isAlive(guardian) && process.kill(guardian, "SIGKILL")));
  process.kill(guardian, "SIGSTOP");
  process.kill(runner, "SIGKILL");
  await expect(database.everbeat.result(id, { timeout: 30_000 })).rejects.toMatchObject({ code: "WORKER_CRASHED" });
  await worker.heard({ event: "runner.ended", pid: runner });
  await gone(left);
  await gone(guardian);
});

describe.each(["missing", "not executable", "refused at once"])("where the shell for a guardian is %s", (how) => {
  const nodeArguments = ["--import", `${new URL(`file://${NO_GUARDIAN}`)}?how=${encodeURIComponent(how)}`];

  test("runners work without one, and what they leave when they crash ends", async () => {
    const { database, id, left, runner } = await leaveBehind({}, { nodeArguments });
    expect(() => guardianOf(runner)).toThrow("no guardian");
    // It was there to have one.
    expect(isAlive(runner)).toBe(true);
    process.kill(runner, "SIGSEGV");
    await expect(database.everbeat.result(id, { timeout: 30_000 })).rejects.toMatchObject({ code: "WORKER_CRASHED" });
    expect(isOver(left)).toBe(true);
  });

  test("runners leave when they are told to, and at once", async () => {
    const { database, worker, id, left } = await leaveBehind({ how: "return" }, { nodeArguments });
    const { everbeat } = database;
    await everbeat.result(id, { timeout: 30_000 });
    worker.close();
    expect(await worker.exited).toEqual({ code: 0, signal: null });
    expect(isOver(left)).toBe(true);
    expect((await everbeat.runners()).map(({ exit }) => exit)).toEqual([{ code: 0, signal: null, because: "stopped" }]);
  });
});
