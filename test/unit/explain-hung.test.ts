/** The words of `explain` for work that is alive and does not get on, to the letter. */
import { describe, expect, test } from "vitest";
import { Problems } from "../../src/config/problems.ts";
import { checkRecovery } from "../../src/config/recovery-options.ts";
import { explain } from "../../src/recovery/explain.ts";
import type { DefinitionFacts, OwnerFacts, TaskFacts } from "../../src/sql/explain-task.ts";
import type { ClaimId, ReplicaId, TaskId } from "../../src/task/ids.ts";

const settings = (options: unknown = {}) => checkRecovery(options, new Problems());

const owner: OwnerFacts = {
  ...{ replicaId: "replica-1" as ReplicaId, status: "online", hostname: "host-7", pid: 42, heardAgoMs: 300 },
  ...{ silentForMs: 300, hasSession: true, holdsSession: true, sessionFreeForMs: null, promiseMs: 12_000 },
  intervalMs: 2_000,
  isOfThisEpoch: true,
  abortGraceMs: 10_000,
  ...{
    sessionPromiseMs: 600,
    vitals: { blockedForMs: 11_700 },
    diedAgoMs: null,
    death: null,
    runner: null,
    blocked: null,
  },
  ...{ cameBack: false, stoppers: 0, isStoppedByTask: false, crowd: { suspects: 1, most: 0, withMost: 1 } },
};
const definition: DefinitionFacts = {
  ...{ onCrash: null, retry: null, timeoutMs: null, stalledAfterMs: null, onStall: null },
};
const running: TaskFacts = {
  ...{ id: "task-1" as TaskId, name: "resize", queue: "images", state: "running", attempt: 1, failures: 0, crashes: 0 },
  ...{ claimId: "7" as ClaimId, isParked: false, dueInMs: -5, expiresInMs: null, heldForMs: 14_000, endedAgoMs: null },
  ...{
    tookMs: null,
    error: null,
    cancelForceInMs: null,
    late: [],
    suspicion: 0,
    isApart: false,
    postMortem: null,
    ahead: 0,
    key: null,
    last: null,
    review: null,
    owner,
  },
  queueIs: { isPaused: false, trouble: null, concurrency: null, limited: 0, rateLimit: null, rateInMs: null },
  workers: { online: 2, knowing: 2, serving: 1, inHand: 3 },
  listening: { sweptAgoMs: 100, hearingForMs: 60_000, heldForMs: null, isConfirmed: false, isByOwner: false },
  ...{ definition, settings: null, rate: null, progress: null, quietForMs: 14_000 },
};
const blocked = {
  forMs: 12_000,
  isRunner: false,
  stack:
    "at get performance (node:internal/util:645:17)\nat fib (/app/src/tasks.ts:12:5)\nat run (/app/src/tasks.ts:30:3)",
  tasks: [{ taskId: "task-1" as TaskId, name: "resize" }],
};
const onBlocked = (more: Partial<TaskFacts> = {}): TaskFacts => ({ ...running, owner: { ...owner, blocked }, ...more });
const quiet = { ...owner, vitals: { blockedForMs: 20 } };
const said = { phase: "download", details: { platform: "cdn" }, share: 0.5, note: null, changedAgoMs: 130_000 };
const stalled = (onStall: "alert" | "fail" | "retry"): TaskFacts => ({
  ...{ ...running, owner: quiet, progress: said, quietForMs: 130_000, heldForMs: 300_000 },
  definition: { ...definition, stalledAfterMs: 120_000, onStall },
});

describe("a task on a worker whose loop is blocked", () => {
  test("is explained with the stack that the loop is stuck in, and with what is in hand there", () => {
    expect(explain(onBlocked(), settings())).toMatchObject({
      because: "owner-blocked",
      isStuck: false,
      summary: "Its owner is alive, but its event loop has been blocked for 12s, in: at fib (tasks.ts:12).",
      next: "Nothing happens to its tasks on that account; none of them gets on until the loop turns again.",
      evidence: [
        "claim 7, attempt 1, owned by replica replica-1 on host-7, process 42: online",
        "its heart beat 300ms ago, a silence of 300ms",
        "its session lock is held",
        "stuck at get performance (node:internal/util:645:17)",
        "      at fib (/app/src/tasks.ts:12:5)",
        "      at run (/app/src/tasks.ts:30:3)",
        "in hand there when that was seen: resize task-1",
        "the last sweep was 100ms ago",
        'if its owner dies: onCrash "fail", 0 of 3 crashes so far',
      ],
      advice: [{ operation: "tasks.list", input: { state: "running", replicaId: "replica-1" } }],
    });
  });

  test("is told when its process is ended: for its timeout, or for the bound", () => {
    const timed = onBlocked({ definition: { ...definition, timeoutMs: 10_000 } });
    expect(explain(timed, settings()).next).toBe(
      "Unless the loop turns again, in 1s it fails with TASK_TIMED_OUT and its process is ended; the others there are recovered, uncharged.",
    );
    expect(explain(onBlocked(), settings({ blockedLoop: { endAfter: "1m" } })).next).toBe(
      "Unless the loop turns again, its process is ended in 48s (blockedLoop.endAfter), and what it had in hand is recovered as after a crash.",
    );
  });

  test("is explained without a stack where there was no answer, and before it was asked for", () => {
    const native = explain(onBlocked({ owner: { ...owner, blocked: { ...blocked, stack: null } } }), settings());
    expect(native.summary).toBe(
      "Its owner is alive, but its event loop has not turned for 12s: some handler there blocks it.",
    );
    expect(native.evidence).toContain("its main thread did not answer where it is: it is in native code");
    expect(explain(running, settings()).summary).toBe(
      "Its owner is alive, but its event loop has not turned for 11.7s: some handler there blocks it.",
    );
  });

  test("that was ended for it is recovered uncharged, where another was at fault", () => {
    const death = { because: "loop-blocked", isCharged: false };
    const dead = { ...running, crashes: 2, owner: { ...owner, status: "dead", diedAgoMs: 200, death } } as TaskFacts;
    const told = explain({ ...dead, definition: { ...definition, onCrash: "requeue" } }, settings());
    expect(told).toMatchObject({
      because: "owner-gone",
      summary: "Its owner, replica replica-1 on host-7, is dead: it was ended because its event loop was blocked.",
      next: "At the next sweep, within 313ms, it is pending again at once.",
    });
  });
});

describe("a task whose owner was not heard since the database was restarted", () => {
  const unheard: OwnerFacts = {
    ...quiet,
    isOfThisEpoch: false,
    heardAgoMs: 9_000,
    silentForMs: 2_900,
    hasSession: false,
  };

  test("is not said to be on a worker that is alive: nobody knows that yet", () => {
    expect(explain({ ...running, owner: unheard }, settings())).toMatchObject({
      because: "owner-unheard",
      isStuck: false,
      summary:
        "Whether its owner, replica replica-1, is alive is not known yet: it has not been heard since the database was started anew, and an earlier session proves nothing.",
      next: 'Unless it is heard, it is declared dead in 12.1s. Then it fails with WORKER_CRASHED (onCrash: "fail") and needs review.',
    });
    expect(explain({ ...running, owner: unheard }, settings()).evidence[0]).toMatch(/process 42: unheard$/);
    expect(explain({ ...running, owner: { ...unheard, vitals: { blockedForMs: 60_000 } } }, settings()).because).toBe(
      "owner-unheard",
    );
  });

  test("is told so too where nobody sweeps: then nothing happens", () => {
    const listening = { ...running.listening, sweptAgoMs: 600_000 } as TaskFacts["listening"];
    expect(explain({ ...running, listening, owner: unheard }, settings()).because).toBe("nobody-sweeps");
  });
});

describe("a task in a runner whose loop is blocked", () => {
  const runner = { kind: "process", pid: 77, status: "busy", heardAgoMs: 40, blockedForMs: 11_700 } as const;
  const inRunner = (more: Partial<OwnerFacts> = {}, facts: Partial<TaskFacts> = {}): TaskFacts => ({
    ...{ ...running, ...facts },
    owner: { ...quiet, runner, blocked: { ...blocked, isRunner: true }, ...more },
  });

  test("is explained with the stack that its runner is stuck in", () => {
    expect(explain(inRunner(), settings())).toMatchObject({
      because: "runner-blocked",
      isStuck: false,
      summary: "Its runner is alive, but its event loop has been blocked for 12s, in: at fib (tasks.ts:12).",
      next: "Nothing happens to it on that account; it does not get on until the loop turns again. No other task waits for it.",
      evidence: [
        "claim 7, attempt 1, owned by replica replica-1 on host-7, process 42: online",
        "its heart beat 300ms ago, a silence of 300ms",
        "its session lock is held",
        "it runs in a process of its own (77): busy, heard 40ms ago",
        "stuck at get performance (node:internal/util:645:17)",
        "      at fib (/app/src/tasks.ts:12:5)",
        "      at run (/app/src/tasks.ts:30:3)",
        "in hand there when that was seen: resize task-1",
        "the last sweep was 100ms ago",
        'if its owner dies: onCrash "fail", 0 of 3 crashes so far',
      ],
      advice: [{ operation: "tasks.cancel", input: { ids: ["task-1"] } }],
    });
  });

  test("is told when its runner is ended for its timeout", () => {
    const timed = (timeoutMs: number) => inRunner({}, { definition: { ...definition, timeoutMs } });
    expect(explain(timed(20_000), settings()).next).toBe(
      "Unless the loop turns again, when its timeout is over, in 6s, its runner is ended, and it fails with TASK_TIMED_OUT. No other task waits for it.",
    );
    expect(explain(timed(10_000), settings()).next).toBe(
      "Unless the loop turns again, now that its timeout is over its runner is ended, and it fails with TASK_TIMED_OUT. No other task waits for it.",
    );
  });

  test("is explained without a stack where there was no answer, and before it was asked for", () => {
    const thread = { ...runner, kind: "thread", blockedForMs: null } as const;
    const native = explain(
      inRunner({ runner: thread, blocked: { ...blocked, isRunner: true, stack: null } }),
      settings(),
    );
    expect(native.summary).toBe(
      "Its runner is alive, but its event loop has not turned for 12s: its handler there blocks it.",
    );
    expect(native.evidence).toContain("its thread did not answer where it is: it is in native code");
    expect(explain(inRunner({ blocked: null }), settings())).toMatchObject({
      because: "runner-blocked",
      summary: "Its runner is alive, but its event loop has not turned for 11.7s: its handler there blocks it.",
    });
  });
});

describe("a task that makes no progress", () => {
  test("is explained as stalled, with what it said last and what follows", () => {
    expect(explain(stalled("alert"), settings())).toMatchObject({
      because: "stalled",
      isStuck: false,
      summary:
        'Its worker is alive, but it has made no progress for 2m 10s (stalledAfter is 2m): its last phase was "download" {"platform":"cdn"}, at 50 %.',
      next: 'Nothing but an alert (onStall: "alert"): it ends when its handler does.',
      advice: [{ operation: "tasks.cancel", input: { ids: ["task-1"] } }],
    });
    expect(explain(stalled("fail"), settings()).next).toBe(
      'At the next look, within 1.3s, it fails with STALLED (onStall: "fail").',
    );
    expect(explain(stalled("retry"), settings()).next).toBe(
      'At the next look, within 1.3s, its attempt fails with STALLED, and it is tried again as its retry policy says (onStall: "retry").',
    );
  });

  test("is not stalled up to its threshold, which is shown", () => {
    const told = explain({ ...stalled("fail"), quietForMs: 120_000 }, settings());
    expect(told.because).toBe("owner-alive");
    expect(told.evidence).toContain("it counts as stalled after 2m without progress; 2m so far");
    expect(told.evidence).toContain('its last phase was "download" {"platform":"cdn"}, at 50 %, 2m 10s ago');
  });

  test("and was failed for it says so", () => {
    const error = {
      code: "STALLED",
      message: "It made no progress for 3m (stalledAfter is 2m): it never reported a phase or progress.",
    };
    const failed: TaskFacts = {
      ...running,
      ...{ state: "failed", owner: null, endedAgoMs: 2_000, tookMs: 180_000, failures: 1, error, quietForMs: null },
    };
    expect(explain(failed, settings())).toMatchObject({
      because: "failed",
      summary: `It failed 2s ago because it was stalled: ${error.message}`,
      next: "Nothing, unless somebody runs it again.",
      advice: [{ operation: "tasks.retry", input: { ids: ["task-1"] } }],
    });
  });
});
