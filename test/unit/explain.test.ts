import { describe, expect, test } from "vitest";
import { advise } from "../../src/advice.ts";
import { Problems } from "../../src/config/problems.ts";
import { checkRecovery } from "../../src/config/recovery-options.ts";
import { type Because, type Explanation, explain } from "../../src/recovery/explain.ts";
import type { KeyHolder, OwnerFacts, TaskFacts } from "../../src/sql/explain-task.ts";
import type { ClaimId, ReplicaId, TaskId } from "../../src/task/ids.ts";

const settings = (options: unknown = {}) => checkRecovery(options, new Problems());
const id = "task-1" as TaskId;

const pending: TaskFacts = {
  ...{ id, name: "resize", queue: "images", state: "pending", attempt: 0, failures: 0, crashes: 0, claimId: null },
  ...{ isParked: false, dueInMs: -5, expiresInMs: null, heldForMs: null, endedAgoMs: null, tookMs: null, error: null },
  ...{ cancelForceInMs: null, late: [], ahead: 0, definition: null, key: null, last: null, owner: null, review: null },
  rate: null,
  ...{ suspicion: 0, isApart: false, postMortem: null },
  queueIs: { isPaused: false, trouble: null, concurrency: null, limited: 0, rateLimit: null, rateInMs: null },
  workers: { online: 2, knowing: 2, serving: 1, inHand: 3 },
  listening: { sweptAgoMs: 100, hearingForMs: 60_000, heldForMs: null, isConfirmed: false, isByOwner: false },
  ...{ settings: null, progress: null, quietForMs: null },
};

const owner: OwnerFacts = {
  ...{ replicaId: "replica-1" as ReplicaId, status: "online", hostname: "host-7", pid: 42, heardAgoMs: 300 },
  ...{
    silentForMs: 300,
    hasSession: true,
    holdsSession: true,
    sessionFreeForMs: null,
    promiseMs: 12_000,
    sessionPromiseMs: 600,
    intervalMs: 2_000,
    isOfThisEpoch: true,
    abortGraceMs: 10_000,
  },
  ...{ vitals: { blockedForMs: 20 }, diedAgoMs: null, death: null, runner: null, blocked: null, cameBack: false },
  stoppers: 0,
  isStoppedByTask: false,
  crowd: { suspects: 1, most: 0, withMost: 1 },
};
const defined = { onCrash: null, retry: null, timeoutMs: null, stalledAfterMs: null, onStall: null } as const;
const running: TaskFacts = {
  ...{ ...pending, state: "running", attempt: 1, claimId: "7" as ClaimId, heldForMs: 4_000, owner },
  definition: defined,
};
const claimed: TaskFacts = { ...running, state: "claimed" };
const ownedBy = (given: Partial<OwnerFacts>, task: TaskFacts = running): TaskFacts => ({
  ...task,
  owner: { ...owner, ...given },
});
const queueIs = (given: Partial<TaskFacts["queueIs"]>): TaskFacts => ({
  ...pending,
  queueIs: { ...pending.queueIs, ...given },
});
const ended: TaskFacts = {
  ...pending,
  state: "completed",
  attempt: 1,
  claimId: "7" as ClaimId,
  endedAgoMs: 2_000,
  tookMs: 100,
};
const crashed: TaskFacts = { ...ended, state: "failed", error: { code: "WORKER_CRASHED", message: "it died" } };
const dead = ownedBy({ status: "dead", diedAgoMs: 200, death: { because: "session-lost" } });
const holder: KeyHolder = {
  ...{ taskId: "task-0" as TaskId, name: "migrate", state: "running", replicaId: "replica-0" as ReplicaId },
  ...{ ownerStatus: "online", heldForMs: 90_000 },
};
const parkedBehind = (given: Partial<KeyHolder> | undefined): TaskFacts => ({
  ...{ ...pending, isParked: true },
  key: { key: "db-1", limit: 1, ahead: 2, holders: given ? [{ ...holder, ...given }] : [] },
});

type Case = [what: string, facts: TaskFacts, because: Because, isStuck: boolean, says: RegExp];

const CASES: Case[] = [
  [
    "is due",
    pending,
    "due",
    false,
    /nothing stands in its way.*one worker that could take it does so.*it has 3 in hand/,
  ],
  ["is delayed", { ...pending, dueInMs: 90_000 }, "delayed", false, /due in 1m 30s/],
  [
    "waits for its next attempt",
    { ...pending, dueInMs: 4_000, last: { outcome: "failed", attempt: 2, endedAgoMs: 1_000, error: null } },
    ...(["backoff", false, /attempt 2 failed.*due in 4s/] as const),
  ],
  [
    "waits after a crash",
    { ...pending, dueInMs: 900, last: { outcome: "crashed", attempt: 1, endedAgoMs: 100, error: null } },
    ...(["backoff", false, /its worker died in attempt 1/] as const),
  ],
  [
    "is parked",
    parkedBehind({}),
    "parked",
    false,
    /"db-1": task task-0 \(migrate\).*for 1m 30s.*and 2 more wait.*has ended/,
  ],
  ["is parked behind the dead", parkedBehind({ ownerStatus: "dead" }), "parked", false, /which is dead.*recovered/],
  ["is parked behind nobody any more", parkedBehind(undefined), "parked", false, /which is free now.*next upkeep/],
  ["is in a paused queue", queueIs({ isPaused: true }), "queue-paused", true, /"images" is paused.*resumes/],
  [
    "meets no worker",
    { ...pending, workers: { online: 0, knowing: 0, serving: 0, inHand: 0 } },
    "no-worker",
    true,
    /No worker is online and heard\. It stays until a worker starts that knows "resize" and works on the queue "images"/,
  ],
  [
    "is known to nobody",
    { ...pending, workers: { online: 3, knowing: 0, serving: 0, inHand: 0 } },
    ...([
      "unknown-task",
      true,
      /3 workers that are online do not know a task named "resize"\. It stays until a worker starts that does/,
    ] as const),
  ],
  [
    "is in a queue that nobody serves",
    { ...pending, workers: { online: 3, knowing: 2, serving: 0, inHand: 0 } },
    ...(["queue-not-served", true, /do not work on the queue "images"/] as const),
  ],
  ["meets a limit", queueIs({ concurrency: 2, limited: 2 }), "concurrency-limit", false, /2 of 2 at once/],
  [
    "meets a limit of none",
    queueIs({ concurrency: 0 }),
    "concurrency-limit",
    true,
    /lets nothing start.*until the limit is raised/,
  ],
  [
    "has no rate left",
    queueIs({ rateLimit: { limit: 10, perMs: 60_000 }, rateInMs: 3_000 }),
    ...(["rate-limit", false, /10 per 1m.*in 3s/] as const),
  ],
  [
    "is put off by its own rate",
    { ...pending, dueInMs: 3_599_000, rate: { key: "slowkey", limit: 1, perMs: 3_600_000, isPutOff: true } },
    ...([
      "key-rate-limit",
      false,
      /^It waits for its rate "slowkey": 1 per 1h\. Its turn is in at most 59m 59s\./,
    ] as const),
  ],
  [
    "has a rate, and was enqueued for later",
    { ...pending, dueInMs: 3_599_000, rate: { key: "slowkey", limit: 1, perMs: 3_600_000, isPutOff: false } },
    ...(["delayed", false, /enqueued for later/] as const),
  ],
  ["is behind others", { ...pending, ahead: 12 }, "behind-others", false, /12 tasks are due before it/],

  ["runs on a worker that is alive", running, "owner-alive", false, /running for 4s on a worker that is alive/],
  ["is claimed by one", claimed, "owner-alive", false, /claimed it 4s ago.*None of its code has run/],
  [
    "runs where the loop is blocked",
    ownedBy({ vitals: { blockedForMs: 60_000 } }),
    "owner-blocked",
    false,
    /not turned for 1m.*Nothing happens/,
  ],
  [
    "runs in a runner whose loop is blocked",
    ownedBy({ runner: { kind: "process", pid: 77, status: "busy", heardAgoMs: 40, blockedForMs: 60_000 } }),
    "runner-blocked",
    false,
    /not turned for 1m.*its handler there blocks it.*No other task waits for it/,
  ],
  [
    "has a stale owner",
    ownedBy({ silentForMs: 8_000 }),
    "owner-stale",
    false,
    /silent for 8s.*dead in 7s.*WORKER_CRASHED/,
  ],
  [
    "has an owner that beats every 30 s and was heard 20 s ago",
    ownedBy({ silentForMs: 20_000, intervalMs: 30_000, promiseMs: 108_000 }),
    ...(["owner-alive", false, /on a worker that is alive/] as const),
  ],
  [
    "has a stale owner that beats every 30 s",
    ownedBy({ silentForMs: 90_000, intervalMs: 30_000, promiseMs: 108_000 }),
    ...(["owner-stale", false, /silent for 1m 30s.*dead in 19\.5s/] as const),
  ],
  [
    "has an owner that lost its session",
    ownedBy({ sessionFreeForMs: 400 }),
    "session-lost",
    false,
    /ended 400ms ago.*dead in 600ms/,
  ],
  [
    "has a silent owner",
    ownedBy({ silentForMs: 16_000 }),
    "owner-dying",
    false,
    /about to be declared dead.*silent for 16s.*WORKER_CRASHED/,
  ],
  [
    "has an owner without session for too long",
    ownedBy({ sessionFreeForMs: 1_200 }),
    "owner-dying",
    false,
    /did not come back/,
  ],
  ["has a dead owner", dead, "owner-gone", false, /is dead: its database session ended.*next sweep.*WORKER_CRASHED/],
  [
    "has an owner whose process was seen to end",
    ownedBy({ status: "dead", death: { because: "exited", exitCode: null, signal: "SIGKILL" } }),
    ...(["owner-gone", false, /is dead: its process was ended by SIGKILL\./] as const),
  ],
  ["had a claimer that died", { ...dead, state: "claimed" }, "owner-gone", false, /pending again, with nothing spent/],
  ["has an owner that left", ownedBy({ status: "offline" }), "owner-gone", false, /has left without giving it back/],
  [
    "has an owner that nobody knows",
    ownedBy({ status: "missing", heardAgoMs: null }),
    "owner-gone",
    false,
    /not on record/,
  ],
  [
    "has a dead owner and is requeued",
    { ...dead, definition: { ...defined, onCrash: "requeue" } },
    ...(["owner-gone", false, /pending again at once/] as const),
  ],
  [
    "has a dead owner and is retried",
    { ...dead, definition: { ...defined, onCrash: "retry" } },
    ...(["owner-gone", false, /pending again, due 1s later/] as const),
  ],
  [
    "has cost too many workers",
    { ...dead, crashes: 2, definition: { ...defined, onCrash: "retry" } },
    ...(["owner-gone", false, /crash budget is spent/] as const),
  ],
  [
    "has a dead owner while recovery is off",
    { ...dead, settings: settings({ autoFailStaleRunning: false }) },
    ...(["recovery-off", true, /autoFailStaleRunning: false.*by hand/] as const),
  ],
  [
    "had a dead claimer while recovery is off",
    { ...dead, state: "claimed", settings: settings({ autoRequeueStaleClaimed: false }) },
    ...(["recovery-off", true, /autoRequeueStaleClaimed: false/] as const),
  ],
  [
    "has a silent owner and nobody sweeps",
    { ...ownedBy({ silentForMs: 600_000 }), listening: { ...must(pending.listening), sweptAgoMs: 600_000 } },
    ...(["nobody-sweeps", true, /until a worker runs.*10m ago/] as const),
  ],
  ["has a dead owner and nobody ever swept", { ...dead, listening: null }, "nobody-sweeps", true, /nobody ever has/],
  [
    "has a silent owner among many",
    { ...ownedBy({ silentForMs: 16_000 }), listening: { ...must(pending.listening), heldForMs: 20_000 } },
    ...(["recovery-held", false, /too many machines.*or in 40s/] as const),
  ],
  [
    "has a silent owner whose death was confirmed",
    {
      ...ownedBy({ silentForMs: 16_000 }),
      listening: { ...must(pending.listening), heldForMs: 20_000, isConfirmed: true },
    },
    ...(["owner-dying", false, /next sweep/] as const),
  ],
  [
    "has an owner whose session ended, and nobody sweeps",
    { ...ownedBy({ holdsSession: false }), listening: { ...must(pending.listening), sweptAgoMs: 9_000 } },
    ...([
      "nobody-sweeps",
      true,
      /cannot be said for sure: nobody has listened for 9s. Its database session has ended.*9s ago.*process 42: unheard/s,
    ] as const),
  ],
  [
    "has an owner that was well when somebody last listened",
    { ...running, listening: { ...must(pending.listening), sweptAgoMs: 9_000 } },
    ...(["nobody-sweeps", true, /cannot be said for sure: nobody has listened for 9s.*process 42: unheard/] as const),
  ],
  [
    "waits while nobody listens",
    { ...pending, listening: { ...must(pending.listening), sweptAgoMs: 9_000 } },
    ...(["no-worker", true, /No worker is heard: nobody has listened for 9s/] as const),
  ],
  [
    "is parked while nobody listens",
    { ...parkedBehind({}), listening: { ...must(pending.listening), sweptAgoMs: 9_000 } },
    ...(["parked", true, /on replica replica-0, which is unheard/] as const),
  ],
  [
    "has an owner whose session ended this moment",
    ownedBy({ holdsSession: false }),
    "session-lost",
    false,
    /ended just now/,
  ],
  [
    "has an owner whose session ended and who swept last itself",
    {
      ...ownedBy({ holdsSession: false }),
      listening: { ...must(pending.listening), isByOwner: true },
    },
    ...([
      "session-lost",
      false,
      /ended just now.*another worker declares it dead in 1s\. Then .*if no other worker runs, nothing happens until one starts/,
    ] as const),
  ],
  ["is being cancelled", { ...running, cancelForceInMs: 4_000 }, "cancelling", false, /at the latest in 9s/],

  ["completed", ended, "completed", false, /completed 2s ago/],
  [
    "failed",
    { ...ended, state: "failed", error: { code: "BOOM", message: "it blew up" } },
    ...(["failed", false, /failed 2s ago.*it blew up/] as const),
  ],
  [
    "is at its last chance",
    { ...pending, attempt: 2, suspicion: 2, isApart: true },
    ...(["kept-apart", false, /running when 2 workers or runners died, so it runs apart.*no other suspect/] as const),
  ],
  [
    "is in quarantine",
    {
      ...{ ...crashed, crashes: 3, error: { code: "POISONED", message: "it died" } },
      postMortem: { id: "9", sentence: "The process ended without a word." },
    },
    ...([
      "quarantined",
      false,
      /into quarantine.*when 3 workers or runners died.*without a word.*until somebody/,
    ] as const),
  ],
  ["crashed", crashed, "needs-review", false, /part of its effects.*somebody has looked/],
  [
    "crashed and was reviewed",
    { ...crashed, review: { reviewedAgoMs: 60_000, note: "all well" } },
    "reviewed",
    false,
    /reviewed 1m ago: "all well"/,
  ],
  [
    "was cancelled",
    { ...ended, state: "cancelled", error: { code: "TASK_CANCELLED", message: "not needed" } },
    "cancelled",
    false,
    /not needed/,
  ],
  ["expired", { ...ended, state: "expired" }, "expired", false, /expired 2s ago/],
];

describe("an explanation of a task that", () => {
  test.each(CASES)("%s", (_what, facts, because, isStuck, says) => {
    const told = explain(facts, settings());
    expect(told).toMatchObject({ taskId: id, name: "resize", state: facts.state, because, isStuck });
    expect(wordsOf(told)).toMatch(says);
  });

  test("meets several obstacles names them all, and what helps against each", () => {
    const told = explain(
      { ...queueIs({ isPaused: true }), dueInMs: 5_000, workers: { ...pending.workers, serving: 0 } },
      settings(),
    );
    expect(told.because).toBe("delayed");
    expect(told.isStuck).toBe(true);
    expect(told.evidence.join("\n")).toMatch(/besides: Its queue "images" is paused.*\nbesides: The workers that know/);
    expect(told.advice).toEqual([
      advise("Let it start at once.", "tasks.retry", { ids: ["task-1"] }),
      advise("Let its tasks start again.", "queues.resume", { name: "images" }),
      { sentence: "Start a worker: everbeat start tasks.ts --queues images" },
    ]);
  });

  test("somebody holds shows the claim, the heart, the session and what a crash would mean", () => {
    const { evidence } = explain(running, settings());
    expect(evidence).toEqual([
      "claim 7, attempt 1, owned by replica replica-1 on host-7, process 42: online",
      "its heart beat 300ms ago, a silence of 300ms",
      "its session lock is held",
      "the last sweep was 100ms ago",
      'if its owner dies: onCrash "fail", 0 of 3 crashes so far',
    ]);
  });

  test.each([
    ["process", "it runs in a process of its own (77): busy, heard 40ms ago"],
    ["thread", "it runs in a thread of its own: busy, heard 40ms ago"],
  ] as const)("runs in a %s of its own is shown with it", (kind, line) => {
    const runner = { kind, pid: 77, status: "busy", heardAgoMs: 40, blockedForMs: null } as const;
    expect(explain(ownedBy({ runner }), settings()).evidence).toContain(line);
  });

  test("is held without a session says why only silence counts", () => {
    expect(wordsOf(explain(ownedBy({ hasSession: false }), settings()))).toMatch(
      /no session lock that counts.*only its silence does/,
    );
    expect(wordsOf(explain(running, settings({ profile: "replica" })))).toMatch(/sessions do not count/);
  });

  test("waits for a limit of none is helped by another limit, and not by a look at what runs", () => {
    expect(explain(queueIs({ concurrency: 0 }), settings()).advice).toMatchObject([
      { operation: "queues.set", input: { name: "images", concurrency: null } },
    ]);
    expect(explain(queueIs({ concurrency: 2, limited: 2 }), settings()).advice).toMatchObject([
      { operation: "tasks.list", input: { state: "running", queue: "images" } },
    ]);
  });

  test("has ended says which outcomes came late", () => {
    const late = (...outcomes: TaskFacts["late"]) => explain({ ...ended, late: outcomes }, settings()).evidence.at(-1);
    expect(late({ outcome: "completed", count: 1 })).toBe("1 late outcome was refused: completed");
    expect(late({ outcome: "completed", count: 2 })).toBe("2 late outcomes were refused: completed");
    expect(late({ outcome: "completed", count: 2 }, { outcome: "failed", count: 1 })).toBe(
      "3 late outcomes were refused: 2 completed, 1 failed",
    );
  });

  test("never comes before the heart's own promise, whatever the thresholds say", () => {
    const lowered = { ...ownedBy({ silentForMs: 8_000 }), settings: settings({ runningStaleThreshold: "5s" }) };
    expect(explain(lowered, settings()).because).toBe("owner-stale");
  });

  test("is in any state has a cause, a next step and no loose ends", () => {
    for (const [, facts] of CASES) {
      const told = explain(facts, settings());
      for (const sentence of [told.summary, told.next]) expect(sentence).toMatch(/^[A-Z].*[^ ]$/);
      expect(wordsOf(told)).not.toMatch(/undefined|null|NaN/);
    }
  });
});

function wordsOf({ summary, evidence, next }: Explanation): string {
  return [summary, next, ...evidence].join(" ");
}

function must<T>(value: T | null): T {
  if (value === null) throw new Error("it must be there");
  return value;
}
