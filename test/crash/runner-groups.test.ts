/** A process that a task has started ends with its runner, however that ends: nothing of one try goes on beside the next. */
import { describe, expect, test, vi } from "vitest";
import { eventually } from "../support/eventually.ts";
import { leaveBehind } from "../support/left-behind.ts";
import { gone, guardianOf, isAlive, isOver } from "../support/processes.ts";
import { task } from "../support/runner-worker.ts";

vi.setConfig({ testTimeout: 120_000 });

describe("a process that a task has started is gone when its attempt is over", () => {
  test("after a timeout, and never writes beside the next attempt", async () => {
    const retry = { attempts: 2, backoff: "fixed", delay: 0 } as const;
    const { database, id, lines, allLeft } = await leaveBehind({}, { task: { timeout: 1_000, retry } });
    await expect(database.everbeat.result(id, { timeout: 40_000 })).rejects.toMatchObject({ code: "TASK_TIMED_OUT" });
    expect(allLeft().map(isOver)).toEqual([true, true]);
    const claims = lines();
    expect(new Set(claims).size).toBe(2);
    expect(claims).toEqual([...claims].sort((a, b) => Number(a) - Number(b)));
    await database.expectSound();
  });

  test.each([
    ["an error that its handler threw", "throw", {}, "TASK_FAILED"],
    ["a timeout that its handler obeyed", "obey", { timeout: 1_000 }, "TASK_TIMED_OUT"],
  ])("after %s, and never writes beside the next attempt", async (_what, how, options, code) => {
    const retry = { attempts: 2, backoff: "fixed", delay: 0 } as const;
    const { database, worker, id, lines, allLeft } = await leaveBehind({ how }, { task: { ...options, retry } });
    await expect(database.everbeat.result(id, { timeout: 40_000 })).rejects.toMatchObject({ code });
    expect(allLeft().map(isOver)).toEqual([true, true]);
    const claims = lines();
    expect(new Set(claims).size).toBe(2);
    expect(claims).toEqual([...claims].sort((a, b) => Number(a) - Number(b)));
    expect(await worker.heard({ event: "runner.ended" })).toMatchObject({ because: "left-behind" });
    // Nobody is charged with the end of the runner.
    expect(await database.everbeat.tasks.show(id)).toMatchObject({ crashes: 0 });
    await database.expectSound();
  });

  test("after a timeout that its handler obeyed too late, where the runner does not end by SIGTERM", async () => {
    const retry = { attempts: 2, backoff: "fixed", delay: 0 } as const;
    const module = new URL("../support/patient-runner-tasks.js", import.meta.url).href;
    const work = { abortGrace: 1_000, runners: { processes: 2 } };
    const { database, id, lines, allLeft } = await leaveBehind(
      { how: "obey late" },
      { task: { timeout: 500, retry, module }, work },
    );
    await expect(database.everbeat.result(id, { timeout: 40_000 })).rejects.toMatchObject({ code: "TASK_TIMED_OUT" });
    expect(allLeft().map(isOver)).toEqual([true, true]);
    const claims = lines();
    expect(new Set(claims).size).toBe(2);
    expect(claims).toEqual([...claims].sort((a, b) => Number(a) - Number(b)));
    await database.expectSound();
  });

  test("after it was snoozed", async () => {
    const { database, id, left, allLeft, lines } = await leaveBehind({ how: "snooze once" });
    const last = await database.everbeat.result(id, { timeout: 30_000 });
    expect(allLeft()).toEqual([left, last]);
    expect(isOver(left)).toBe(true);
    const claims = lines();
    expect(claims).toEqual([...claims].sort((a, b) => Number(a) - Number(b)));
    await database.expectSound();
  });

  test.each(["return in time", "obey"])("after it lost its claim and its handler did this: %s", async (how) => {
    // An attempt that waits for its runner for that long is a stall, too.
    const retry = { attempts: 50, backoff: "fixed", delay: 0 } as const;
    const { database, worker, id, left, allLeft } = await leaveBehind(
      { how },
      { task: { stalledAfter: 700, onStall: "retry", retry } },
    );
    await worker.heard({ event: "claim.lost", taskId: id });
    await eventually(() => allLeft().length > 1, { within: 30_000, what: "the next attempt" });
    expect(isOver(left)).toBe(true);
    await database.expectSound();
  });

  test("after a cancel that came while its handler was about to return", async () => {
    const { database, worker, id, left } = await leaveBehind({ how: "return in time" });
    await database.everbeat.tasks.cancel(id);
    await database.everbeat.result(id, { timeout: 30_000 }).catch(() => {});
    expect(isOver(left)).toBe(true);
    expect(await worker.heard({ event: "runner.ended" })).toMatchObject({ because: "left-behind" });
  });

  test("after a cancel", async () => {
    const { database, id, left } = await leaveBehind();
    await database.everbeat.tasks.cancel(id);
    await expect(database.everbeat.result(id, { timeout: 30_000 })).rejects.toMatchObject({ state: "cancelled" });
    expect(isOver(left)).toBe(true);
    await database.expectSound();
  });

  test.each(["exit", "SIGKILL", "SIGSEGV"])("after a crash of its runner (%s)", async (how) => {
    const { database, id, left } = await leaveBehind({ how });
    const error = await database.everbeat.result(id, { timeout: 30_000 }).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      code: "WORKER_CRASHED",
      error: { runner: how === "exit" ? { exitCode: 3, signal: null } : { exitCode: null, signal: how } },
    });
    expect(isOver(left)).toBe(true);
    // Another runner takes its place.
    await database.everbeat.result(await database.everbeat.enqueue(task("look"), {}), { timeout: 30_000 });
    await database.expectSound();
  });

  test("after a kill of its worker", async () => {
    const { worker, runner, left } = await leaveBehind();
    await worker.kill();
    await gone(runner);
    await gone(left);
  });

  test("after a kill of its worker and its runner at once", async () => {
    const { worker, runner, left } = await leaveBehind();
    process.kill(runner, "SIGSTOP");
    worker.signal("SIGKILL");
    process.kill(runner, "SIGKILL");
    await worker.exited;
    await gone(left);
  });

  test("after such a kill, before whoever reports it lets others run its task, also where the guardian wakes up late", async () => {
    const { database, worker, runner, left } = await leaveBehind();
    const guardian = guardianOf(runner);
    for (const pid of [runner, guardian]) process.kill(pid, "SIGSTOP");
    worker.signal("SIGKILL");
    process.kill(runner, "SIGKILL");
    await worker.exited;
    process.kill(guardian, "SIGCONT");
    const { verdict } = await database.everbeat.recovery.reportExit(worker.replicaId, { signal: "SIGKILL" });
    expect([verdict, isOver(left)]).toEqual(["dead", true]);
  });
});

describe("a process that a completed task has left behind", () => {
  test("goes on while its runner does, and ends with it", async () => {
    const { database, worker, id, runner, left } = await leaveBehind({ how: "return" });
    expect(await database.everbeat.result(id, { timeout: 30_000 })).toBe(left);
    const next = await database.everbeat.enqueue(task("look"), {});
    expect(await database.everbeat.result(next, { timeout: 30_000 })).toMatchObject({ pid: runner });
    expect(isAlive(left)).toBe(true);
    worker.close();
    expect(await worker.exited).toEqual({ code: 0, signal: null });
    expect(isOver(left)).toBe(true);
    expect((await database.everbeat.runners()).map(({ exit }) => exit)).toEqual([
      { code: 0, signal: null, because: "stopped" },
    ]);
  });

  test("goes on when an attempt fails that has left nothing, as does what a module has started when it was loaded", async () => {
    const module = new URL("../support/helped-runner-tasks.js", import.meta.url).href;
    const { database, worker, id, runner, left } = await leaveBehind({ how: "return" }, { task: { module } });
    await database.everbeat.result(id, { timeout: 30_000 });
    const failing = await database.everbeat.enqueue(task("throwPointless"), {});
    await expect(database.everbeat.result(failing, { timeout: 30_000 })).rejects.toMatchObject({ code: "TASK_FAILED" });
    const next = await database.everbeat.enqueue(task("look"), {});
    expect(await database.everbeat.result(next, { timeout: 30_000 })).toMatchObject({ pid: runner });
    expect(isAlive(left)).toBe(true);
    expect(worker.messages.filter(({ event }) => event === "runner.ended")).toEqual([]);
  });

  test("ends when a later attempt does not end well and has left something itself", async () => {
    const { database, worker, id, runner, left, allLeft, file } = await leaveBehind(
      { how: "return" },
      { task: { retry: { attempts: 1 } } },
    );
    await database.everbeat.result(id, { timeout: 30_000 });
    const failing = await database.everbeat.enqueue(task("leaveBehind"), { file, how: "throw" });
    await expect(database.everbeat.result(failing, { timeout: 30_000 })).rejects.toMatchObject({ code: "TASK_FAILED" });
    expect(await worker.heard({ event: "runner.ended", pid: runner })).toMatchObject({ because: "left-behind" });
    expect(allLeft()[0]).toBe(left);
    expect(allLeft().map(isOver)).toEqual([true, true]);
  });

  test("ends when its runner is recycled", async () => {
    const runners = { processes: 1, recycleAfter: 1 };
    const { database, worker, id, runner, left } = await leaveBehind({ how: "return" }, { work: { runners } });
    await database.everbeat.result(id, { timeout: 30_000 });
    expect(await worker.heard({ event: "runner.ended", pid: runner })).toMatchObject({
      ...{ because: "recycled", exitCode: 0, signal: null },
    });
    expect(isOver(left)).toBe(true);
  });
});

describe("a process in a session of its own", () => {
  test("can escape, but keeps neither its attempt nor its worker waiting by the standard error that it holds open", async () => {
    const { database, worker, id, left } = await leaveBehind({ detached: true }, { task: { timeout: 1_000 } });
    await expect(database.everbeat.result(id, { timeout: 30_000 })).rejects.toMatchObject({ code: "TASK_TIMED_OUT" });
    expect(isAlive(left)).toBe(true);
    worker.close();
    expect(await worker.exited).toEqual({ code: 0, signal: null });
  });
});
