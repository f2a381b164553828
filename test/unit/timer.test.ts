/** Timers that take longer than one of Node's own can: 24.8 days. */
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { delay } from "../../src/database/backoff.ts";
import { steadyNowMs } from "../../src/heart/clock.ts";
import { SharedDeadlines } from "../../src/heart/deadlines.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { TaskTimedOutError } from "../../src/task/errors.ts";
import type { ClaimId, TaskId } from "../../src/task/ids.ts";
import { runHandler } from "../../src/testing/run-handler.ts";
import { Timer } from "../../src/timer.ts";

const DAY_MS = 86_400_000;
const YEAR_MS = 365 * DAY_MS;
const LONGEST_OF_NODE_MS = 2 ** 31 - 1;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const times = fc.oneof(
  fc.integer({ min: 1, max: 10 * YEAR_MS }),
  fc.integer({ min: -2, max: 2 }).map((more) => LONGEST_OF_NODE_MS + more),
  fc.integer({ min: -2, max: 2 }).map((more) => 2 * LONGEST_OF_NODE_MS + more),
);

describe("a timer", () => {
  test("of any length is over at its time, once, and not before", () => {
    fc.assert(
      fc.property(times, (ms) => {
        const onOver = vi.fn();
        new Timer(ms, onOver);
        vi.advanceTimersByTime(ms - 1);
        expect(onOver).not.toHaveBeenCalled();
        vi.advanceTimersByTime(1);
        expect(onOver).toHaveBeenCalledOnce();
        expect(vi.getTimerCount()).toBe(0);
      }),
    );
  });

  test("that is stopped, at whatever time, is never over, and leaves nothing behind", () => {
    fc.assert(
      fc.property(times, fc.double({ min: 0, max: 0.999, noNaN: true }), (ms, share) => {
        const onOver = vi.fn();
        const timer = new Timer(ms, onOver);
        vi.advanceTimersByTime(Math.floor(ms * share));
        timer.stop();
        timer.stop();
        expect(vi.getTimerCount()).toBe(0);
        vi.advanceTimersByTime(ms);
        expect(onOver).not.toHaveBeenCalled();
      }),
    );
  });

  test("whose turn comes late on the way is not late at its end", () => {
    const [ms, lateMs] = [40 * DAY_MS, DAY_MS];
    const onOver = vi.fn();
    new Timer(ms, onOver);
    // The loop stands still for a day, and only then the first of Node's timers fires.
    const clock = vi.spyOn(performance, "now").mockReturnValue(performance.now() + LONGEST_OF_NODE_MS + lateMs);
    vi.advanceTimersByTime(LONGEST_OF_NODE_MS);
    clock.mockRestore();
    vi.advanceTimersByTime(ms - LONGEST_OF_NODE_MS - lateMs - 1);
    expect(onOver).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(onOver).toHaveBeenCalledOnce();
  });
});

test("a pause may be of any length, and an abort ends it at any time", async () => {
  const whole = vi.fn();
  const cut = vi.fn();
  const stopping = new AbortController();
  void delay(YEAR_MS).then(whole);
  void delay(YEAR_MS, stopping.signal).then(cut);
  await vi.advanceTimersByTimeAsync(YEAR_MS - 1);
  expect([whole, cut].map(({ mock }) => mock.calls.length)).toEqual([0, 0]);
  stopping.abort();
  await vi.advanceTimersByTimeAsync(0);
  expect([whole, cut].map(({ mock }) => mock.calls.length)).toEqual([0, 1]);
  await vi.advanceTimersByTimeAsync(1);
  expect(whole).toHaveBeenCalledOnce();
  expect(vi.getTimerCount()).toBe(0);
});

describe.each(["60d", "365d"] as const)("a task with a timeout of %s", (timeout) => {
  const timeoutMs = Number.parseInt(timeout, 10) * DAY_MS;
  const endless = defineTask({
    name: "endless",
    timeout,
    run: (_input: null, { signal }) =>
      new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
  });

  test("runs for so long, and no longer", async () => {
    const onEnd = vi.fn();
    const run = runHandler(endless, null);
    void run.then(onEnd);
    await vi.advanceTimersByTimeAsync(timeoutMs - 1);
    expect(onEnd).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(1);
    expect(await run).toMatchObject({ outcome: "threw", error: { code: "TASK_TIMED_OUT", timeoutMs } });
    expect(vi.getTimerCount()).toBe(0);
  });

  test("that ends in time leaves no timer behind", async () => {
    const month = defineTask({ name: "month", timeout, run: (_input: null) => delay(30 * DAY_MS) });
    const run = runHandler(month, null);
    await vi.advanceTimersByTimeAsync(30 * DAY_MS);
    expect(await run).toMatchObject({ outcome: "returned" });
    expect(vi.getTimerCount()).toBe(0);
  });

  test("is over at the same time for the heart of a process that is blocked", () => {
    const deadlines = new SharedDeadlines();
    const taskId = "0198c6f0-5a5e-7c3e-9d55-0b7f3c1f2a11" as TaskId;
    const { settings } = endless;
    const begunAtMs = steadyNowMs();
    deadlines.begin({ claimId: "1" as ClaimId, taskId, timeoutMs, settings });
    expect(deadlines.overdueAt(begunAtMs + timeoutMs - 1)).toEqual([]);
    expect(deadlines.overdueAt(begunAtMs + timeoutMs + 60_000)).toMatchObject([{ taskId, timeoutMs }]);
    expect(new TaskTimedOutError(taskId, timeoutMs).message).toContain(`its timeout of ${timeout}.`);
  });
});
