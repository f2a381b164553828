import { describe, expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { ClaimLostError, TaskCancelledError, TaskTimedOutError, WorkerStoppingError } from "../../src/task/errors.ts";
import type { ClaimId, ReplicaId, TaskId } from "../../src/task/ids.ts";
import { type EndedAttempt, outcomeOf } from "../../src/worker/outcome.ts";

const ref = { claim: "7" as ClaimId, task: "t" as TaskId, replica: "r" as ReplicaId };
const once = defineTask({ name: "once", run: () => 1 }).settings;
const thrice = defineTask({
  name: "thrice",
  retry: { attempts: 3, backoff: "fixed", delay: 100, jitter: 0 },
  run: () => 1,
}).settings;
const ended = (attempt: Partial<EndedAttempt>): EndedAttempt => ({
  ref,
  failures: 0,
  ending: { kind: "threw", error: new Error("boom") },
  abortReason: undefined,
  completedInTransaction: false,
  ...attempt,
});

describe("the outcome of an attempt", () => {
  test("that returned is completed, also when it was told to stop", () => {
    const ending = { kind: "returned", resultJson: "1" } as const;
    expect(outcomeOf(ended({ ending }), once, 0)).toMatchObject({ to: "completed", resultJson: "1" });
    expect(outcomeOf(ended({ ending, abortReason: new TaskCancelledError(ref.task) }), once, 0)).toMatchObject({
      to: "completed",
    });
  });

  test("that threw is failed, or pending again while attempts are left", () => {
    expect(outcomeOf(ended({}), once, 0)).toMatchObject({
      to: "failed",
      outcome: "failed",
      failures: 1,
      error: { message: "boom" },
    });
    expect(outcomeOf(ended({ failures: 1 }), thrice, 0)).toMatchObject({
      to: "pending",
      outcome: "failed",
      failures: 2,
      delayMs: 100,
    });
    expect(outcomeOf(ended({ failures: 2 }), thrice, 0)).toMatchObject({ to: "failed", failures: 3 });
  });

  test("that was snoozed costs nothing", () => {
    const outcome = outcomeOf(ended({ ending: { kind: "snoozed", delayMs: 5_000 } }), once, 0);
    expect(outcome).toEqual({ ...ref, to: "pending", outcome: "snoozed", delayMs: 5_000 });
  });

  test("that stopped because the worker does is pending again and costs nothing", () => {
    const outcome = outcomeOf(ended({ abortReason: new WorkerStoppingError(ref.task) }), once, 0);
    expect(outcome).toMatchObject({ to: "pending", outcome: "aborted" });
    expect(outcome).not.toHaveProperty("failures");
  });

  test.each([
    ["cancelled", new TaskCancelledError(ref.task), "TASK_CANCELLED"],
    ["timed out", new TaskTimedOutError(ref.task, 1_000), "TASK_TIMED_OUT"],
    ["stopped with its worker", new WorkerStoppingError(ref.task), "WORKER_STOPPING"],
  ])(
    "that was %s keeps an error of the handler's own as the cause, and not that it stopped",
    (_, abortReason, code) => {
      const errorAfter = (error: unknown) =>
        outcomeOf(ended({ abortReason, ending: { kind: "threw", error } }), once, 0)?.error;
      expect(errorAfter(new Error("rollback failed"))).toMatchObject({ code, cause: { message: "rollback failed" } });
      const aborted = Object.assign(new Error("The operation was aborted"), { name: "AbortError", code: "ABORT_ERR" });
      for (const stop of [abortReason, aborted]) {
        expect(errorAfter(stop)).toMatchObject({ code });
        expect(errorAfter(stop)).not.toHaveProperty("cause");
      }
      const ending = { kind: "abandoned" } as const;
      expect(outcomeOf(ended({ abortReason, ending }), once, 0)?.error).not.toHaveProperty("cause");
    },
  );

  test("that was cancelled is cancelled, whether it stopped or had to be abandoned", () => {
    const abortReason = new TaskCancelledError(ref.task);
    expect(outcomeOf(ended({ abortReason }), thrice, 0)).toMatchObject({ to: "cancelled" });
    expect(outcomeOf(ended({ abortReason, ending: { kind: "abandoned" } }), thrice, 0)).toMatchObject({
      to: "cancelled",
    });
  });

  test("that timed out is a failure with that reason, whatever it threw on its way out", () => {
    const abortReason = new TaskTimedOutError(ref.task, 50);
    expect(outcomeOf(ended({ abortReason }), once, 0)).toMatchObject({
      to: "failed",
      error: { code: "TASK_TIMED_OUT" },
    });
    expect(outcomeOf(ended({ abortReason, ending: { kind: "abandoned" } }), thrice, 0)).toMatchObject({
      to: "pending",
      failures: 1,
    });
  });

  test("that timed out and did not stop says for how long it went on, and what became of it", () => {
    const abortReason = new TaskTimedOutError(ref.task, 1_000);
    const messageAfter = (ending: EndedAttempt["ending"]) =>
      outcomeOf(ended({ abortReason, stoppingForMs: 10_012, ending }), once, 0)?.error?.message;
    const { message } = abortReason;
    expect(messageAfter({ kind: "abandoned" })).toBe(
      `${message} It did not stop when its signal fired, so it was abandoned 10s later (abortGrace) and may still go on.`,
    );
    expect(messageAfter({ kind: "stopped", wasEnded: true, stack: undefined })).toBe(
      `${message} It did not stop when its signal fired, so its runner was ended 10s later (abortGrace).`,
    );
    expect(messageAfter({ kind: "stopped", wasEnded: false, stack: undefined })).toBe(
      `${message} It did not stop when its signal fired. Its runner ended 10s later.`,
    );
    expect(messageAfter({ kind: "threw", error: abortReason })).toBe(message);
  });

  test("of a lost claim is nobody's business any more", () => {
    expect(outcomeOf(ended({ abortReason: new ClaimLostError(ref.claim, ref.task) }), once, 0)).toBeUndefined();
  });

  test("that was completed in its own transaction counts as failed only if that did not commit", () => {
    const outcome = outcomeOf(
      ended({ ending: { kind: "returned", resultJson: "1" }, completedInTransaction: true }),
      once,
      0,
    );
    expect(outcome).toMatchObject({ confirm: true, to: "failed", error: { code: "COMPLETION_NOT_COMMITTED" } });
  });

  test("that threw after it was completed in its own transaction is judged by what it threw, if that did not commit", () => {
    const choosy = defineTask({ name: "choosy", retry: { attempts: 3, unless: ["E_BAD"] }, run: () => 1 }).settings;
    const afterThrowing = (error: unknown, abortReason?: unknown) =>
      outcomeOf(ended({ ending: { kind: "threw", error }, completedInTransaction: true, abortReason }), choosy, 0);
    const bad = Object.assign(new Error("the address is bad"), { code: "E_BAD" });
    const error = { code: "E_BAD", message: "the address is bad" };
    expect(afterThrowing(bad)).toMatchObject({ confirm: true, to: "failed", failures: 1, error });
    const other = { confirm: true, to: "pending", outcome: "failed", error: { message: "other" } };
    expect(afterThrowing(new Error("other"))).toMatchObject(other);
    const cancelled = { confirm: true, to: "cancelled", error: { code: "TASK_CANCELLED", cause: error } };
    expect(afterThrowing(bad, new TaskCancelledError(ref.task))).toMatchObject(cancelled);
  });

  test("that snoozed itself after it was completed in its own transaction waits, if that did not commit", () => {
    const ending = { kind: "snoozed", delayMs: 5_000 } as const;
    const outcome = outcomeOf(ended({ ending, completedInTransaction: true }), once, 0);
    expect(outcome).toEqual({ ...ref, to: "pending", outcome: "snoozed", delayMs: 5_000, confirm: true });
  });

  test("of a lost claim is asked for all the same, if it may have been completed in a transaction", () => {
    const abortReason = new ClaimLostError(ref.claim, ref.task);
    expect(outcomeOf(ended({ abortReason, completedInTransaction: true }), once, 0)).toMatchObject({ confirm: true });
  });

  test("survives a judgement that throws", () => {
    const settings = defineTask({
      name: "bad-judge",
      retry: {
        attempts: 2,
        unless: () => {
          throw new Error("judge is ill");
        },
      },
      run: () => 1,
    }).settings;
    const told: unknown[] = [];
    const onUnlessThrew = (error: unknown) => told.push(error);
    expect(outcomeOf(ended({ onUnlessThrew }), settings, 0)).toMatchObject({ to: "pending" });
    expect(told).toEqual([expect.objectContaining({ message: "judge is ill" })]);
  });
});
