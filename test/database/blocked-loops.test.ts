/** Blocked loops on record: one row per blockage whatever replies are lost, and an alert for as long as it lasts. */
import { expect, test } from "vitest";
import { type BlockedThread, noteBlockedLoop, noteLoopTurned } from "../../src/sql/blocked-loops.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { type ClaimOnTask, newReplicaId } from "../../src/task/ids.ts";
import { handClaimer } from "../support/claims.ts";
import { openCrashDatabase } from "../support/crash-database.ts";

const RUNNER = "4f7b2a52-51a3-4e6e-9d0c-0b1d8d6a3c11";

test("a blockage whose reply was lost is noted again in its own row, and those of others are left alone", async () => {
  const { everbeat, query } = await openCrashDatabase();
  const { database } = everbeat;
  const replicaId = newReplicaId();
  const own: BlockedThread = { replicaId, runnerId: undefined, claims: undefined };
  const runner: BlockedThread = { replicaId, runnerId: RUNNER, claims: [] };
  const sight = (blockedMs: number) => ({
    blockedMs,
    stack: "at fib (tasks.ts:12:5)",
    pausedMs: 1,
    message: "blocked",
  });
  const first = await noteBlockedLoop(database, own, undefined, sight(5_000));
  expect(await noteBlockedLoop(database, own, undefined, sight(5_300))).toBe(first);
  const second = await noteBlockedLoop(database, runner, undefined, sight(5_000));
  expect(second).not.toBe(first);
  expect((await everbeat.alerts.list({ open: true })).map(({ subject }) => subject).sort()).toEqual(
    [RUNNER, replicaId].sort(),
  );

  await noteLoopTurned(database, second as string, 6_000);
  await noteLoopTurned(database, second as string, 9_000);
  expect((await everbeat.alerts.list({ open: true })).map(({ subject }) => subject)).toEqual([replicaId]);
  const third = await noteBlockedLoop(database, runner, undefined, sight(5_000));
  expect(
    await query("select id, blocked_ms, ended_at is null as lasts from everbeat.blocked_loop order by id"),
  ).toEqual([
    { id: first, blocked_ms: 5_300, lasts: true },
    { id: second, blocked_ms: 6_000, lasts: false },
    { id: third, blocked_ms: 5_000, lasts: true },
  ]);
});

test("what is past its timeout is suspected first, then what began last, and the alert's advice leads there", async () => {
  const { everbeat } = await openCrashDatabase();
  const claimer = handClaimer(everbeat.database, ["noop"]);
  const noop = defineTask({ name: "noop", run: (_input: unknown) => null });
  const ids = [await everbeat.enqueue(noop, 1), await everbeat.enqueue(noop, 2), await everbeat.enqueue(noop, 3)];
  const claimed: ClaimOnTask[] = [];
  for (const _ of ids) claimed.push(...(await claimer.claim()));
  const own: BlockedThread = { replicaId: claimer.replicaId, runnerId: undefined, claims: undefined };
  const advised = async () => (await everbeat.alerts.list({ open: true }))[0]?.advice.map(({ input }) => input);
  const sight = { blockedMs: 5_000, stack: "at fib (tasks.ts:12:5)", pausedMs: 1, message: "blocked" };

  await noteBlockedLoop(everbeat.database, own, undefined, sight);
  const ofReplica = { of: claimer.replicaId };
  expect(await advised()).toEqual([{ id: claimed.at(-1)?.taskId }, ofReplica]);
  const overdue = [claimed[1] as ClaimOnTask].map(({ claimId }) => claimId);
  await noteBlockedLoop(everbeat.database, own, undefined, { ...sight, overdue });
  expect(await advised()).toEqual([{ id: claimed[1]?.taskId }, ofReplica]);
});

test("a task in a runner whose blockage is noted is explained by it before any beat has told where it runs", async () => {
  const { everbeat } = await openCrashDatabase();
  const claimer = handClaimer(everbeat.database, ["noop"]);
  const id = await everbeat.enqueue(defineTask({ name: "noop", run: (_input: unknown) => null }), 1);
  const [task] = await claimer.claim();
  expect((await everbeat.recovery.explain(id)).evidence.join("\n")).not.toMatch(/fib/);
  const thread = { replicaId: claimer.replicaId, runnerId: RUNNER, claims: [task as ClaimOnTask] };
  const sight = { blockedMs: 5_000, stack: "at fib (tasks.ts:12:5)", pausedMs: 1, message: "blocked" };
  await noteBlockedLoop(everbeat.database, thread, undefined, sight);
  expect((await everbeat.recovery.explain(id)).evidence.join("\n")).toMatch(/stuck at fib/);
});
