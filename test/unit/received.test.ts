import { describe, expect, test } from "vitest";
import type { ClaimedTask } from "../../src/sql/claims.ts";
import { defineTask, type TaskOptions } from "../../src/task/define-task.ts";
import type { ClaimId, ClaimOnTask, ReplicaId, TaskId } from "../../src/task/ids.ts";
import { forgottenOutcome } from "../../src/worker/forgotten-ends.ts";
import { Received } from "../../src/worker/received.ts";

const claims = (...ids: number[]): ClaimOnTask[] =>
  ids.map((id) => ({ claimId: String(id) as ClaimId, taskId: `task ${id}` as TaskId }));
const had = (received: Received, id: number) => received.had(String(id) as ClaimId);

describe("claims that a process has had", () => {
  test("are all that came with replies, however long ago", () => {
    const received = new Received();
    received.noteAnswer(received.noteAsked(), claims(3, 5));
    received.noteAnswer(received.noteAsked(), claims(8));
    expect([1, 3, 5, 8, 9].map((id) => had(received, id))).toEqual([true, true, true, true, false]);
  });

  test("are not those of a reply that was lost, also where a later one has come", () => {
    const received = new Received();
    received.noteAnswer(received.noteAsked(), claims(3));
    received.noteAsked();
    const second = received.noteAsked();
    received.noteAnswer(second, claims(7, 8));
    received.noteAnswer(received.noteAsked(), claims(11));
    expect([3, 5, 6, 7, 8, 9, 11].map((id) => had(received, id))).toEqual([
      true,
      false,
      false,
      true,
      true,
      false,
      true,
    ]);
  });

  test("are those of a lost reply too, once they were found", () => {
    const received = new Received();
    received.noteAsked();
    received.noteAnswer(received.noteAsked(), claims(7));
    received.settle(claims(5), received.neverBegun());
    expect([5, 7, 8].map((id) => had(received, id))).toEqual([true, true, false]);
  });

  test("are not those that were in hand and of which nothing has run", () => {
    const received = new Received();
    received.noteAnswer(received.noteAsked(), claims(1, 2));
    received.noteNeverBegun(claims(2));
    expect([1, 2].map((id) => had(received, id))).toEqual([true, false]);
  });
});

describe("claims of which nothing has run", () => {
  test("are known as such until a look for lost replies that began later has found them or has not", () => {
    const received = new Received();
    received.noteAnswer(received.noteAsked(), claims(1, 2, 3));
    received.noteNeverBegun(claims(1, 2));
    const before = received.neverBegun();
    received.noteNeverBegun(claims(3));
    received.settle(claims(1), before);
    expect([1, 2, 3].map((id) => had(received, id))).toEqual([true, true, false]);
    received.settle(claims(3), received.neverBegun());
    expect(had(received, 3)).toBe(true);
  });
});

describe("an attempt whose end was forgotten", () => {
  const outcome = (options: Partial<TaskOptions>) => {
    const { settings } = defineTask({ name: "x", ...options, run: (_input: unknown) => null });
    const claimed = { claimId: "1", taskId: "t", crashes: 0 } as ClaimedTask;
    const policy = { requeuesClaimed: true, recoversRunning: false, crashBudget: 3 };
    return forgottenOutcome(claimed, "r" as ReplicaId, settings, { policy, random: 0 });
  };

  test("fails where it must not be repeated", () => {
    expect(outcome({ onCrash: "fail" })).toMatchObject({ to: "failed", error: { code: "END_FORGOTTEN" } });
  });

  test("is followed by another where it may be, which costs nothing", () => {
    expect(outcome({ onCrash: "requeue" })).toMatchObject({ to: "pending", outcome: "aborted", delayMs: 0 });
    expect(outcome({ onCrash: "requeue" }).crashes).toBeUndefined();
  });
});
