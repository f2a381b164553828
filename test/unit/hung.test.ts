/** What is decided about work that is alive and does not get on: stalls, blocked loops, and what tasks say of themselves. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { blockageOn, blockedForMs } from "../../src/heart/blockage.ts";
import { SharedDeadlines } from "../../src/heart/deadlines.ts";
import { timedOutOutcome } from "../../src/heart/timed-out.ts";
import { STALL_DOUBT, stallLimits } from "../../src/recovery/limits.ts";
import { recoveryOf } from "../../src/recovery/recovery-action.ts";
import { afterStall, type OnStall, saidWords, stallError } from "../../src/recovery/stall.ts";
import { blameOn, crowdAtRunner, noBlameOn } from "../../src/recovery/suspicion.ts";
import { verdictOn } from "../../src/recovery/verdict.ts";
import { defineTask } from "../../src/task/define-task.ts";
import type { ClaimId, ReplicaId, TaskId } from "../../src/task/ids.ts";
import { checkPhase, checkProgress } from "../../src/task/progress.ts";
import { DEFAULT_RETRY } from "../../src/task/retry.ts";
import { firstFrame, shortFrame } from "../../src/task/stack-frames.ts";
import { runHandler } from "../../src/testing/run-handler.ts";
import { LogRing } from "../../src/worker/log-ring.ts";

const retry = { ...DEFAULT_RETRY, attempts: 3, jitter: 0 };

describe("a stall", () => {
  const verdict = (silentForMs: number, onStall: OnStall, stalledAfterMs: number | undefined = 1_000) =>
    verdictOn({ silentForMs }, stallLimits({ stalledAfterMs, onStall })).kind;

  test("begins with the threshold for a warning, and beyond it for an end", () => {
    const at = (onStall: OnStall) => [999, 1_000, 1_001].map((quietForMs) => verdict(quietForMs, onStall));
    expect(at("alert")).toEqual(["fresh", "stale", "stale"]);
    for (const onStall of ["fail", "retry"] as const) expect(at(onStall)).toEqual(["fresh", "fresh", "dead"]);
  });

  test("is none where nobody is to be asked about the attempt", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1e6 }), fc.nat(1e6), (stalledAfterMs, silentForMs) => {
        fc.pre(silentForMs < STALL_DOUBT.fromPart * stalledAfterMs);
        for (const onStall of ["alert", "fail", "retry"] as const)
          expect(verdict(silentForMs, onStall, stalledAfterMs)).toBe("fresh");
      }),
    );
  });

  test("ends the attempt as the definition says", () => {
    expect(afterStall(1, { onStall: "fail", retry }, 0)).toEqual({ kind: "fail", failures: 2 });
    expect(afterStall(1, { onStall: "retry", retry }, 0)).toEqual({ kind: "again", failures: 2, delayMs: 2_000 });
    expect(afterStall(2, { onStall: "retry", retry }, 0)).toEqual({ kind: "fail", failures: 3 });
  });

  test("is none where nobody set a threshold, and never ends more than its retries allow", () => {
    fc.assert(
      fc.property(
        fc.nat(),
        fc.nat(50),
        fc.constantFrom("alert", "fail", "retry"),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (quietForMs, failures, onStall, random) => {
          const unset = stallLimits({ stalledAfterMs: undefined, onStall });
          expect(verdictOn({ silentForMs: quietForMs }, unset).kind).toBe("fresh");
          const next = afterStall(failures, { onStall, retry }, random);
          if (next.kind === "again") expect(next.failures).toBeLessThan(retry.attempts);
        },
      ),
    );
  });

  test("is told with what the task said last", () => {
    const said = { phase: "download", details: { platform: "cdn" }, share: 0.333, note: "page 3" };
    expect(stallError({ ...said, quietForMs: 130_000, stalledAfterMs: 120_000 })).toMatchObject({
      code: "STALLED",
      message:
        'It made no progress for 2m 10s (stalledAfter is 2m): its last phase was "download" {"platform":"cdn"}, at 33.3 % (page 3).',
    });
    const nothing = { phase: null, details: null, share: null, note: null };
    expect(saidWords(nothing)).toBe("it never reported a phase or progress");
    expect(saidWords({ ...nothing, share: 0.5 })).toBe("it was last at 50 %");
    expect(saidWords({ ...nothing, phase: "parse" })).toBe('its last phase was "parse"');
  });
});

describe("a definition", () => {
  test("that would quietly never do what it says is refused", () => {
    const define = (options: object) => () => defineTask({ name: "t", run: () => {}, ...options });
    expect(define({ onStall: "fail" })).toThrow(/onStall: means nothing without "stalledAfter"/);
    expect(define({ stalledAfter: "1m", onStall: "retry" })).toThrow(/needs retry\.attempts of 2 or more/);
    expect(define({ stalledAfter: 10 })).toThrow(/stalledAfter: must be a duration/);
    expect(define({ stalledAfter: "1m", onStall: "kill" })).toThrow(/"alert" or "fail" or "retry"/);
    expect(define({ stalledAfter: "1m", onStall: "retry", retry: { attempts: 2 } })).not.toThrow();
  });
});

describe("a blocked loop", () => {
  const policy = { stackAfterMs: 1_000, timeoutGraceMs: 500, endAfterMs: undefined };
  const on = (blocked: number, notedAtMs?: number, overdueForMs?: number, more = {}) =>
    blockageOn({ blockedForMs: blocked, notedAtMs, overdueForMs }, { ...policy, ...more });

  test("is noted once, and again each time it has lasted twice as long", () => {
    expect([on(999), on(1_000), on(1_001, 1_000), on(1_999, 1_000), on(2_000, 1_000), on(3_999, 2_000)]).toEqual([
      "wait",
      "note",
      "wait",
      "wait",
      "note",
      "wait",
    ]);
  });

  test("ends its process only where it has been blocked, and a timeout over, for the grace", () => {
    expect(on(400, undefined, 10_000)).toBe("wait");
    expect(on(10_000, 9_000, 499)).toBe("wait");
    expect(on(500, undefined, 500)).toBe("end-timed-out");
    expect(on(3_600_000, 3_000_000)).toBe("wait");
    expect(on(5_000, 4_000, undefined, { endAfterMs: 5_000 })).toBe("end");
    expect(on(4_999, 4_000, undefined, { endAfterMs: 5_000 })).toBe("wait");
  });

  test("is not reckoned from before the watcher was awake", () => {
    expect(blockedForMs({ nowMs: 10_000, tickedAtMs: 9_950, awakeSinceMs: 0 })).toBe(50);
    expect(blockedForMs({ nowMs: 10_000, tickedAtMs: 2_000, awakeSinceMs: 9_990 })).toBe(10);
    expect(blockedForMs({ nowMs: 10_000, tickedAtMs: 10_100, awakeSinceMs: 0 })).toBe(0);
  });

  test("is shown by the frame that tells the most", () => {
    const stack =
      "at get performance (node:internal/util:645:17)\nat Atomics.wait (<anonymous>)\nat fib (/app/src/tasks.ts:12:5)\nat /app/x.js:1:2";
    expect(firstFrame(stack)).toBe("at fib (/app/src/tasks.ts:12:5)");
    expect(shortFrame(stack)).toBe("at fib (tasks.ts:12)");
    expect(shortFrame("at /app/x.js:1:2")).toBe("at x.js:1");
    expect(shortFrame("at Atomics.wait (<anonymous>)")).toBe("at Atomics.wait (<anonymous>)");
  });
});

describe("an attempt that timed out in a blocked loop", () => {
  const claim = { claimId: "7" as ClaimId, taskId: "task-1" as TaskId, failures: 0, settings: { retry } };
  const ended = (isWorthRetrying: boolean) =>
    timedOutOutcome({
      ...{ claim, replicaId: "replica-1" as ReplicaId, stack: "at fib (/app/tasks.ts:12:5)", random: 0 },
      deadline: { timeoutMs: 2_000, isWorthRetrying },
    });

  test("fails or is tried again as its retry policy says", () => {
    expect(ended(true)).toMatchObject({ to: "pending", outcome: "failed", failures: 1, delayMs: 1_000 });
    expect(ended(false)).toMatchObject({ to: "failed", outcome: "failed", failures: 1 });
    expect(ended(true).error).toMatchObject({
      code: "TASK_TIMED_OUT",
      message: expect.stringMatching(
        /timeout of 2s.*could not be told to stop.*in: at fib \(\/app\/tasks\.ts:12:5\)\.$/,
      ),
    });
  });
});

describe("deadlines in shared memory", () => {
  const { settings } = defineTask({ name: "t", retry: { attempts: 2, unless: ["TASK_TIMED_OUT"] }, run: () => {} });
  const timed = (claimId: string, timeoutMs: number) => ({
    ...{ claimId: claimId as ClaimId, taskId: "task-1" as TaskId, timeoutMs, settings },
  });

  test("are seen from the other side once they have passed, and gone when they are over", () => {
    const own = new SharedDeadlines();
    const seen = new SharedDeadlines(own.buffer);
    const first = own.begin(timed("11", 1_000));
    own.begin(timed("12", 60_000));
    const nowMs = Number.MAX_SAFE_INTEGER;
    expect(seen.overdueAt(0)).toEqual([]);
    expect(
      seen.overdueAt(nowMs).map(({ claimId, timeoutMs, isWorthRetrying }) => [claimId, timeoutMs, isWorthRetrying]),
    ).toEqual([
      ["11", 1_000, false],
      ["12", 60_000, false],
    ]);
    const [before] = seen.overdueAt(nowMs);
    first.putOff(10_000);
    expect(seen.overdueAt(nowMs)[0]?.atMs).toBeGreaterThan(before?.atMs ?? 0);
    first.over();
    expect(seen.overdueAt(nowMs).map(({ claimId }) => claimId)).toEqual(["12"]);
  });

  test("have room for a thousand, and use their places again", () => {
    const own = new SharedDeadlines();
    const begun = Array.from({ length: 3_000 }, (_, index) => own.begin(timed(String(index + 1), 1)));
    expect(own.overdueAt(Number.MAX_SAFE_INTEGER)).toHaveLength(1_024);
    for (const deadline of begun) deadline.over();
    expect(own.overdueAt(Number.MAX_SAFE_INTEGER)).toEqual([]);
    own.begin(timed("5000", 1));
    expect(own.overdueAt(Number.MAX_SAFE_INTEGER)).toHaveLength(1);
  });
});

describe("the recovery of a task whose process was ended on another's account", () => {
  const policy = { requeuesClaimed: true, recoversRunning: true, crashBudget: 3 };
  const owned = {
    state: "running",
    crashes: 2,
    suspicion: 0,
    isCancelled: false,
    onCrash: "requeue",
    retry,
    crashBudget: undefined,
  } as const;

  test("costs none of its budget, and repeats nothing that may not be repeated", () => {
    expect(recoveryOf(owned, noBlameOn(owned), policy, 0)).toEqual({
      ...{ kind: "again", crashes: 2, delayMs: 0, isApart: false },
    });
    expect(recoveryOf(owned, blameOn(owned, crowdAtRunner(1)), policy, 0)).toMatchObject({
      kind: "fail",
      because: "crash-budget",
    });
    expect(recoveryOf({ ...owned, onCrash: "fail" }, noBlameOn(owned), policy, 0)).toEqual({
      kind: "fail",
      crashes: 2,
      because: "on-crash",
    });
    const first = { ...owned, crashes: 0, onCrash: "retry" } as const;
    expect(recoveryOf(first, noBlameOn(first), policy, 0)).toMatchObject({
      kind: "again",
      crashes: 0,
      delayMs: 1_000,
    });
  });
});

describe("what a task says of itself", () => {
  test("is a share, or how many of how many", () => {
    expect(checkProgress(0.25, undefined)).toEqual({ share: 0.25, done: null, total: null, note: null });
    expect(checkProgress({ done: 3, total: 4 }, "n")).toEqual({ share: 0.75, done: 3, total: 4, note: "n" });
    expect(checkProgress({ done: 0, total: 0 }, null).share).toBe(1);
    expect(checkProgress({ done: 9, total: 4 }, null).share).toBe(1);
    for (const wrong of [
      -0.1,
      1.1,
      Number.NaN,
      "0.5",
      null,
      { done: 1 },
      { done: -1, total: 2 },
      { done: 1, total: Number.POSITIVE_INFINITY },
    ])
      expect(() => checkProgress(wrong, undefined)).toThrow(/must be a share from 0 to 1/);
    expect(() => checkProgress(0.5, 7)).toThrow(/note: must be text/);
  });

  test("is a phase with details that JSON can hold", () => {
    expect(checkPhase("parse", undefined)).toEqual({ phase: "parse", details: null });
    expect(checkPhase("zero \0 \ud800", { a: [1] })).toEqual({ phase: "zero \uFFFD \uFFFD", details: '{"a":[1]}' });
    expect(() => checkPhase("x".repeat(129), 1n)).toThrow(
      /name: must be text of 1 to 128.*\n.*details: it is not JSON: a bigint/,
    );
  });

  test("is kept by the testing helpers", async () => {
    const steps = defineTask({
      name: "steps",
      run: async (_: undefined, { phase, progress }) => {
        await phase("one", { at: new Date(0) });
        progress({ done: 1, total: 2 });
        await phase("two");
      },
    });
    expect(await runHandler(steps, undefined)).toMatchObject({
      outcome: "returned",
      phases: [
        { phase: "one", details: { at: "1970-01-01T00:00:00.000Z" } },
        { phase: "two", details: null },
      ],
      progress: [{ share: 0.5, done: 1, total: 2, note: null }],
    });
  });
});

describe("the ring of log lines", () => {
  test("keeps the last twenty, oldest first, in little room, whatever was logged", () => {
    const ring = new LogRing();
    for (let line = 1; line <= 50; line++) ring.add("info", { line }, "said");
    expect(ring.last()).toHaveLength(20);
    expect(ring.last()[0]).toMatchObject({ level: "info", text: "said { line: 31 }" });
    const cyclic: Record<string, unknown> = {};
    cyclic["self"] = cyclic;
    ring.add("warn", cyclic, "zero \0");
    ring.add("error", undefined as never, undefined as never);
    expect(ring.last().at(-2)?.text).toMatch(/^zero \uFFFD <ref/);
    for (let line = 1; line <= 20; line++) ring.add("info", { large: "x".repeat(100_000) }, "y".repeat(100_000));
    const text = ring
      .last()
      .map((line) => line.text)
      .join("");
    expect(text.length).toBeLessThanOrEqual(4_096);
    expect(text.length).toBeGreaterThan(3_000);
  });
});
