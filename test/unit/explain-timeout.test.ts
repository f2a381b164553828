/** The words of `explain` for a task with a timeout, before its signal fires, and after that while it does not stop. */
import { describe, expect, test } from "vitest";
import { Problems } from "../../src/config/problems.ts";
import { checkRecovery } from "../../src/config/recovery-options.ts";
import { explain } from "../../src/recovery/explain.ts";
import type { DefinitionFacts, OwnerFacts, TaskFacts } from "../../src/sql/explain-task.ts";
import type { ClaimId, ReplicaId, TaskId } from "../../src/task/ids.ts";

const settings = checkRecovery({}, new Problems());
const owner: OwnerFacts = {
  ...{ replicaId: "replica-1" as ReplicaId, status: "online", hostname: "host-7", pid: 42, heardAgoMs: 300 },
  ...{ silentForMs: 300, hasSession: true, holdsSession: true, sessionFreeForMs: null, promiseMs: 12_000 },
  ...{ sessionPromiseMs: 600, intervalMs: 2_000, vitals: { blockedForMs: 20 }, diedAgoMs: null, death: null },
  ...{
    runner: null,
    blocked: null,
    cameBack: false,
    stoppers: 0,
    isStoppedByTask: false,
    isOfThisEpoch: true,
    abortGraceMs: 10_000,
  },
  crowd: { suspects: 1, most: 0, withMost: 1 },
};
const definition: DefinitionFacts = { onCrash: null, retry: null, timeoutMs: 2_000, stalledAfterMs: null };
const running: TaskFacts = {
  ...{ id: "task-1" as TaskId, name: "hang", queue: "default", state: "running", attempt: 1, failures: 0, crashes: 0 },
  ...{ claimId: "7" as ClaimId, isParked: false, dueInMs: -5, expiresInMs: null, heldForMs: 500, endedAgoMs: null },
  ...{ tookMs: null, error: null, cancelForceInMs: null, late: [], suspicion: 0, isApart: false, postMortem: null },
  ...{ ahead: 0, key: null, last: null, review: null, owner, definition, settings: null, rate: null, progress: null },
  queueIs: { isPaused: false, trouble: null, concurrency: null, limited: 0, rateLimit: null, rateInMs: null },
  workers: { online: 2, knowing: 2, serving: 1, inHand: 3 },
  listening: { sweptAgoMs: 100, hearingForMs: 60_000, heldForMs: null, isConfirmed: false, isByOwner: false },
  quietForMs: 500,
};
const heldFor = (heldForMs: number, more: Partial<TaskFacts> = {}): TaskFacts => ({
  ...{ ...running, heldForMs, quietForMs: heldForMs },
  ...more,
});
const told = (facts: TaskFacts) => explain(facts, settings);
const inRunner: OwnerFacts = {
  ...owner,
  runner: { kind: "process", pid: 77, status: "busy", heardAgoMs: 40, blockedForMs: 3 },
};

describe("a task with a timeout", () => {
  test("is told when its signal fires, and when it is abandoned if it ignores that", () => {
    const { because, summary, next, evidence } = told(running);
    expect({ because, summary, next }).toEqual({
      because: "owner-alive",
      summary: "It has been running for 500ms on a worker that is alive.",
      next: "It ends when its handler does. Its timeout is over in 1.5s: then its signal fires. If its handler ignores that, it is abandoned 10s later and fails with TASK_TIMED_OUT.",
    });
    expect(evidence).toContain("timeout 2s, 500ms so far; abortGrace of its worker 10s");
  });

  test("has a signal that has fired, once its timeout is over", () => {
    const { because, summary, next, isStuck, advice } = told(heldFor(4_000));
    expect({ because, summary, next, isStuck }).toEqual({
      because: "past-timeout",
      summary:
        "Its timeout of 2s was over 2s ago: its signal has fired, and its handler has not ended yet, on a worker that is alive.",
      next: "If its handler still has not ended in 8s, it is abandoned (abortGrace) and fails with TASK_TIMED_OUT.",
      isStuck: false,
    });
    expect(advice).toEqual([]);
    expect(told(heldFor(2_000)).because).toBe("past-timeout");
    expect(told(heldFor(1_999)).because).toBe("owner-alive");
  });

  test("is abandoned at any moment when its grace is over too", () => {
    expect(told(heldFor(12_100)).next).toBe(
      "It is abandoned (abortGrace) at any moment and fails with TASK_TIMED_OUT.",
    );
  });

  test("in a runner has its runner ended instead", () => {
    expect(told(heldFor(500, { owner: inRunner })).next).toMatch(
      /If its handler ignores that, its runner is ended 10s later and it fails with TASK_TIMED_OUT\.$/,
    );
    expect(told(heldFor(4_000, { owner: inRunner })).next).toBe(
      "If its handler still has not ended in 8s, its runner is ended (abortGrace) and it fails with TASK_TIMED_OUT.",
    );
  });

  test("that has attempts left is tried again afterwards", () => {
    const retry = { attempts: 3, backoff: "fixed", delayMs: 1_000, maxDelayMs: 1_000, jitter: 0 } as const;
    const twice = { definition: { ...definition, retry } };
    expect(told(heldFor(4_000, { ...twice, failures: 1 })).next).toMatch(
      /its attempt fails with TASK_TIMED_OUT and is tried again as its retry policy says\.$/,
    );
    expect(told(heldFor(4_000, { ...twice, failures: 2 })).next).toMatch(
      /it is abandoned.* and fails with TASK_TIMED_OUT\.$/,
    );
  });

  test("is told without a number where the grace of its worker is not on record", () => {
    const older = heldFor(4_000, { owner: { ...owner, abortGraceMs: null } });
    expect(told(older).next).toBe(
      "If its handler does not end within abortGrace of that, it is abandoned and fails with TASK_TIMED_OUT.",
    );
    expect(told(older).evidence).toContain("timeout 2s, 4s so far");
  });

  test("and stalled beside that is told both", () => {
    const stalled = (onStall: "alert" | "fail", heldForMs = 4_000) =>
      told(heldFor(heldForMs, { definition: { ...definition, stalledAfterMs: 1_000, onStall } }));
    expect(stalled("alert")).toMatchObject({
      because: "stalled",
      next: 'For the stall nothing but an alert (onStall: "alert"). Its timeout of 2s was over 2s ago: its signal has fired. If its handler still has not ended in 8s, it is abandoned (abortGrace) and fails with TASK_TIMED_OUT.',
    });
    expect(stalled("alert", 1_500).next).toBe(
      'For the stall nothing but an alert (onStall: "alert"). It ends when its handler does. Its timeout is over in 500ms: then its signal fires. If its handler ignores that, it is abandoned 10s later and fails with TASK_TIMED_OUT.',
    );
    expect(stalled("fail").next).toMatch(/^At the next look/);
  });
});

test("a task without a timeout ends when its handler does", () => {
  const endless = heldFor(60_000, { definition: { ...definition, timeoutMs: null } });
  expect(told(endless).next).toBe("It ends when its handler does.");
  expect(told(endless).evidence.join("\n")).not.toMatch(/timeout/);
});

test("a task on a worker that is being stopped is told so", () => {
  const draining = { owner: { ...owner, status: "draining" } as const };
  expect(told(heldFor(500, { ...draining, definition: { ...definition, timeoutMs: null } }))).toMatchObject({
    because: "owner-draining",
    summary: "It has been running for 500ms on a worker that is alive and has been told to stop.",
    next: "It ends when its handler does. If that takes longer than its worker waits (shutdownGrace), its signal fires, and unless its handler ends otherwise it is pending again, uncharged.",
  });
});
