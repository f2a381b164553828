/** What runners decide and how they speak, without any running. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { evidenceLines } from "../../src/recovery/death-evidence.ts";
import { afterFailedStart, afterPause, type Breaker, CLOSED } from "../../src/runner/breaker.ts";
import { carryError, reviveError } from "../../src/runner/carried-error.ts";
import { LatestCall } from "../../src/runner/latest-call.ts";
import { LineReader } from "../../src/runner/line-reader.ts";
import { LogBudget } from "../../src/runner/log-budget.ts";
import {
  decode,
  decodeSealed,
  encode,
  encodeSealed,
  longestMessage,
  type ToRunner,
} from "../../src/runner/protocol.ts";
import { NOTHING_BEFORE, withJob } from "../../src/runner/ran-before.ts";
import { runnerArguments } from "../../src/runner/runner-arguments.ts";
import { describeEnd, type RunnerDeath } from "../../src/runner/runner-death.ts";
import { listeningOn, runnerSilenceMs } from "../../src/runner/runner-silence.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { toErrorRecord } from "../../src/task/error-record.ts";
import { CutOffError, InvalidInputError, TaskCancelledError, TaskTimedOutError } from "../../src/task/errors.ts";
import type { ClaimId, ReplicaId, TaskId } from "../../src/task/ids.ts";
import { ClaimableNames } from "../../src/worker/claimable-names.ts";
import { NOBODY } from "../../src/worker/company.ts";
import { runnerCrashOutcomeOf } from "../../src/worker/crash-outcome.ts";
import { runnerEvidence } from "../../src/worker/runner-evidence.ts";
import { Slots } from "../../src/worker/slots.ts";

describe("messages", () => {
  test("come out as they went in, however the stream was cut", () => {
    fc.assert(
      fc.property(fc.array(fc.jsonValue(), { maxLength: 5 }), fc.integer({ min: 1, max: 7 }), (inputs, step) => {
        const sent = inputs.map(
          (input, job) => ({ type: "run", job, name: "t", items: [{ input }] }) as unknown as ToRunner,
        );
        const stream = sent.map((message) => `${encode(message)}\n`).join("");
        const reader = new LineReader(1_000_000);
        const lines: string[] = [];
        for (let at = 0; at < stream.length; at += step) lines.push(...reader.read(stream.slice(at, at + step)));
        expect(lines.map((line) => decode(line))).toEqual(sent.map((message) => JSON.parse(JSON.stringify(message))));
      }),
    );
  });

  test("that are none are passed over", () => {
    for (const line of ["", "hello", "null", "3", '{"no": "type"}', "{"]) expect(decode(line)).toBeUndefined();
  });

  test("of a runner is taken for its own only with its seal", () => {
    const message = { type: "ended", job: 1, memory: 0, isTainted: false, leavesProcesses: false } as const;
    expect(decodeSealed("seal", encodeSealed("seal", message))).toEqual(message);
    const forged = [JSON.stringify(message), encodeSealed("other", message), `x${encodeSealed("seal", message)}`];
    for (const line of [...forged, "seal", "sealhello", "sealnull", undefined, 7, message])
      expect(decodeSealed("seal", line)).toBeUndefined();
  });
});

describe("an error on its way", () => {
  test("keeps what is on record of it, and its cause", () => {
    const error = Object.assign(new RangeError("too far", { cause: new Error("why") }), { code: "E_FAR" });
    const before = toErrorRecord(error);
    const { cause, ...after } = toErrorRecord(reviveError(carryError(error)));
    expect(after).toEqual({ ...before, cause: undefined });
    expect(cause).toMatchObject({ message: "why", code: before.cause?.code });
  });

  test("is one of ours again where it was", () => {
    const task = "t" as TaskId;
    expect(reviveError(carryError(new TaskTimedOutError(task, 5)))).toBeInstanceOf(TaskTimedOutError);
    expect(reviveError(carryError(new CutOffError(task)))).toBeInstanceOf(CutOffError);
    expect(reviveError(carryError(new TaskCancelledError(task, "because")))).toMatchObject({
      reason: "because",
      taskId: task,
    });
    expect(reviveError(carryError(new InvalidInputError("mail", ["to: is missing"])))).toMatchObject({
      problems: ["to: is missing"],
      message: new InvalidInputError("mail", ["to: is missing"]).message,
    });
  });

  test("says whether it is worth another try, by the judgement of where it was thrown", () => {
    expect(reviveError(carryError(new Error("x"), () => false))).toMatchObject({ retryable: false });
    expect(reviveError(carryError(new Error("x"), () => true))).not.toHaveProperty("retryable");
    const thrower = () => {
      throw new Error("no judgement");
    };
    expect(reviveError(carryError(new Error("x"), thrower))).not.toHaveProperty("retryable");
  });

  test("fits into a message, however much it carries", () => {
    const long = "\u0001".repeat(1_000_000);
    const nested = (depth: number): Error =>
      Object.assign(new AggregateError(depth > 0 ? Array.from({ length: 5 }, () => nested(depth - 1)) : [], long), {
        ...{ code: long, name: "AggregateError", stack: long, cause: depth > 0 ? nested(depth - 1) : undefined },
        ...{
          reason: long,
          task: long,
          taskId: long,
          claimId: long,
          problems: Array.from({ length: 1_000 }, () => long),
        },
      });
    const message = encodeSealed("seal", { type: "failed", error: carryError(nested(2)) });
    expect(message.length).toBeLessThan(longestMessage(0));
  });

  test("is an error like any other where it has the code of one of ours and not its fields", () => {
    for (const code of [
      "CLAIM_LOST",
      "TASK_CANCELLED",
      "TASK_TIMED_OUT",
      "WORKER_STOPPING",
      "CUT_OFF",
      "INVALID_INPUT",
    ]) {
      for (const fields of [{}, { problems: "all", task: 7 }, { taskId: 7, timeoutMs: "long", claimId: ["5"] }]) {
        const error = reviveError(carryError(Object.assign(new Error("theirs"), { code, ...fields })));
        expect(error).toMatchObject({ code, message: "theirs" });
      }
    }
  });

  test("may be anything at all", () => {
    for (const thrown of [undefined, null, "text", 3, Symbol("s"), { message: 7 }, Object.create(null)]) {
      expect(reviveError(carryError(thrown))).toBeInstanceOf(Error);
    }
  });
});

describe("the breaker", () => {
  const rule = { failures: 3, firstPauseMs: 100, maxPauseMs: 350 };
  test("opens after failures in a row, tries one after a pause, and waits longer each time", () => {
    let breaker: Breaker = CLOSED;
    breaker = afterFailedStart(breaker, rule, 0);
    breaker = afterFailedStart(breaker, rule, 0);
    expect(breaker).toEqual({ kind: "closed", failures: 2 });
    breaker = afterFailedStart(breaker, rule, 10);
    expect(breaker).toMatchObject({ kind: "open", pauseMs: 100, sinceMs: 10 });
    expect(afterPause(breaker, 109)).toBe(breaker);
    breaker = afterPause(breaker, 110);
    expect(breaker.kind).toBe("half-open");
    breaker = afterFailedStart(breaker, rule, 200);
    expect(breaker).toMatchObject({ kind: "open", pauseMs: 200 });
    breaker = afterFailedStart(afterPause(breaker, 400), rule, 400);
    expect(breaker).toMatchObject({ kind: "open", pauseMs: 350, failures: 5 });
  });
});

describe("a runner's silence", () => {
  test("counts from when it was heard, but not while its replica could not listen", () => {
    let listening = { sinceMs: 0, lookedAtMs: 0 };
    listening = listeningOn(listening, 100, 100);
    expect(runnerSilenceMs(40, listening, 100)).toBe(60);
    listening = listeningOn(listening, 2_000, 100);
    expect(runnerSilenceMs(40, listening, 2_000)).toBe(0);
    listening = listeningOn(listening, 2_100, 100);
    expect(runnerSilenceMs(40, listening, 2_100)).toBe(100);
  });
});

describe("what a runner is started with", () => {
  test("is what its replica was, without what is the replica's alone", () => {
    const given = [
      "--import",
      "tsx",
      "--inspect=9229",
      "-e",
      "code()",
      "--conditions=x",
      "--watch",
      "--input-type=module",
    ];
    expect(runnerArguments(given)).toEqual(["--import", "tsx", "--conditions=x"]);
  });
});

describe("a log budget", () => {
  test("grants so many in a second, and tells of those that it did not", () => {
    const budget = new LogBudget(() => 0);
    const granted = Array.from({ length: 1_500 }, () => budget.take(0)).filter(({ isGranted }) => isGranted);
    expect(granted).toHaveLength(1_000);
    expect(budget.take(1_000)).toEqual({ isGranted: true, dropped: 500 });
    expect(budget.take(1_000)).toEqual({ isGranted: true, dropped: 0 });
  });

  test("is closed while much of what was sent is not read", () => {
    let unread = 0;
    const budget = new LogBudget(() => unread);
    expect(budget.take(0)).toEqual({ isGranted: true, dropped: 0 });
    unread = 10_000_000;
    expect([budget.take(0), budget.take(5_000)]).toEqual(Array(2).fill({ isGranted: false, dropped: 0 }));
    unread = 1_000;
    expect(budget.take(5_000)).toEqual({ isGranted: true, dropped: 2 });
  });
});

describe("a call of which only the last counts", () => {
  test("is not sent for each of a flood, and its last one always", () => {
    const sent: unknown[] = [];
    const progress = new LatestCall(([value]) => sent.push(value));
    for (let done = 1; done <= 50_000; done++) progress.call([done]);
    progress.flush();
    progress.flush();
    expect(sent[0]).toBe(1);
    expect(sent.at(-1)).toBe(50_000);
    expect(sent.length).toBeLessThan(1_000);
    expect(new Set(sent).size).toBe(sent.length);
  });

  test("that is to be sent now takes the place of one that waits", () => {
    const sent: unknown[] = [];
    const phases = new LatestCall(([name]) => sent.push(name));
    for (const name of ["first", "second", "third"]) phases.call([name]);
    phases.callNow(["fourth"]);
    phases.flush();
    expect(sent).toEqual(["first", "fourth"]);
  });
});

describe("what may be claimed", () => {
  test("leaves out tasks without a runner to run them, until there is one", () => {
    const tasks = [
      defineTask({ name: "here", run: () => 1 }),
      defineTask({ name: "there", runIn: "process", run: () => 1 }),
    ];
    const slots = new Slots(10, new Map(), (runIn) => (runIn === "process" ? 1 : undefined));
    const names = new ClaimableNames(tasks, slots);
    expect(names.current()).toEqual(["here", "there"]);
    slots.take("default", "process");
    expect(names.current()).toEqual(["here"]);
    expect(names.haveGrown()).toBe(false);
    slots.give("default", "process");
    expect(names.haveGrown()).toBe(true);
    expect(names.current()).toEqual(["here", "there"]);
  });
});

describe("the outcome of a crash", () => {
  const death: RunnerDeath = {
    ...{
      runnerId: "r1",
      kind: "process",
      pid: 7,
      hostname: "box",
      because: "exited",
      exitCode: null,
      signal: "SIGSEGV",
    },
    ...{
      message: undefined,
      stack: undefined,
      livedMs: 1,
      silentForMs: 1,
      vitals: undefined,
      earlier: undefined,
      heapLimitMb: undefined,
      stderrTail: "",
      attempts: [],
      before: { count: 0, last: [], again: [] },
      group: undefined,
    },
  };
  const ref = { claim: "1" as ClaimId, task: "t" as TaskId, replica: "r" as ReplicaId };
  const policy = { requeuesClaimed: true, recoversRunning: false, crashBudget: 3 };
  const outcome = (onCrash: "fail" | "retry" | "requeue", crashes: number, completedInTransaction = false) =>
    runnerCrashOutcomeOf(
      { ref, crashes, suspicion: 0, completedInTransaction },
      { death, company: NOBODY },
      {
        settings: defineTask({ name: "x", onCrash, retry: { delay: 50, jitter: 0 }, run: () => 1 }).settings,
        ...{ policy, random: 0 },
      },
    );

  test("is that of a dead replica's task, with the runner's end on record, and certain whatever the policy is", () => {
    expect(outcome("fail", 0)).toMatchObject({
      to: "failed",
      crashes: 1,
      error: { code: "WORKER_CRASHED", because: "runner-ended" },
    });
    expect(outcome("fail", 0).error?.message).toContain("(process 7) was ended by SIGSEGV");
    expect(outcome("requeue", 1)).toMatchObject({ to: "pending", outcome: "crashed", crashes: 2, delayMs: 0 });
    expect(outcome("retry", 0)).toMatchObject({ to: "pending", delayMs: 50 });
    expect(outcome("requeue", 2)).toMatchObject({ to: "failed", crashes: 3 });
    expect(outcome("fail", 0, true)).toMatchObject({ confirm: true });
  });

  test("does not say that a thread has exited which could not be ended", () => {
    const stuck = {
      ...death,
      kind: "thread",
      because: "aborted",
      signal: null,
      message: "it was left to itself",
    } as const;
    expect(describeEnd(stuck)).toBe("(a thread) was to end and has not (it was left to itself)");
    expect(evidenceLines(runnerEvidence(stuck, NOBODY))[0]).toBe(
      "its thread could not be ended, and was left to itself",
    );
  });
});

describe("what a runner has run before", () => {
  const ref = (task: string) => ({ taskId: task as TaskId, claimId: "1" as ClaimId, name: "t", attempt: 1 });

  test("counts all, and names those that may run again, however many others came after them", () => {
    let before = withJob(NOTHING_BEFORE, [ref("a"), ref("b"), ref("c")], [new Error("failed"), null, undefined]);
    for (let job = 0; job < 500; job++) before = withJob(before, [ref(`other ${job}`)], ["done"]);
    before = withJob(before, [ref("a")], [new Error("failed again")]);
    expect(before.count).toBe(504);
    expect(before.again).toEqual(["a", "c"]);
    expect(before.last).toHaveLength(100);
    expect(before.last[0]).toEqual(ref("a"));
  });
});
