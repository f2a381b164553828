/**
 * Whatever frees exclusive keys locks claims first, by owner and id, and then all keys of the statement in one order. Each test brings two
 * statements into the moment in which they would wait for each other if they locked keys in the order of their owners, or as they came.
 */
import { randomUUID } from "node:crypto";
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { createClaimHandle } from "../../src/runner/claim-handle.ts";
import type { ClaimedTask } from "../../src/sql/claims.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const { everbeat, database } = await openTestEverbeat();
const noop = defineTask({ name: "noop", run: (_input: unknown) => null });

interface Claimed extends ClaimedTask {
  readonly owner: string;
}

/** Three owners, in the order in which they are locked, each with a task for either side; the keys of one side run the other way round. */
async function twoSides(state: "claimed" | "running") {
  const queue = randomUUID();
  const claimers = Array.from({ length: 3 }, () => handClaimer(everbeat.database, ["noop"])).sort((a, b) =>
    a.replicaId < b.replicaId ? -1 : 1,
  );
  const [a, m, n, z] = ["a", "m", "n", "z"].map((letter) => `${letter} ${queue}`) as [string, string, string, string];
  const sides = [
    [z, m, a],
    [a, n, z],
  ];
  const claimed: Claimed[][] = [[], []];
  for (const [place, claimer] of claimers.entries()) {
    for (const [side, keys] of sides.entries()) {
      await everbeat.enqueue(noop, 1, { queue, exclusiveKey: keys[place] as string, exclusiveLimit: 2 });
      const demand = state === "running" ? { run: 1, prefetch: 0 } : { run: 0, prefetch: 1 };
      const [task] = await claimer.claim({ queues: [queue], room: [null], ...demand });
      claimed[side]?.push({ ...(task as ClaimedTask), owner: claimer.replicaId });
    }
  }
  return { one: claimed[0] as Claimed[], other: claimed[1] as Claimed[], between: [m, n] };
}

/** While their middle keys are held, each side has what it locks before; then they go on. */
async function atOnce(between: readonly string[], works: readonly (() => Promise<unknown>)[]): Promise<void> {
  const holder = new pg.Client(database.url);
  await holder.connect();
  onTestFinished(() => holder.end());
  await holder.query("begin");
  for (const key of between) {
    await holder.query("select pg_advisory_xact_lock(everbeat.gate_lock_id('exclusive', $1))", [key]);
  }
  const done = Promise.all(works.map((work) => work()));
  done.catch(() => {});
  // What fails before it waits is the reason why the others are not seen to wait.
  const waiting = eventually(
    () =>
      database.query(
        "select from pg_locks where locktype = 'advisory' and not granted and database = (select oid from pg_database where datname = current_database())",
      ),
    { until: (waiting) => waiting.length === works.length, what: "both sides to wait for a key" },
  );
  await Promise.race([waiting, done]);
  await waiting;
  await holder.query("commit");
  await done;
}

const ids = (tasks: readonly Claimed[]) => tasks.map(({ taskId }) => taskId);
const lists = (tasks: readonly Claimed[]) => [tasks.map(({ claimId }) => claimId), ids(tasks)];
/** Without the client's own tries to repeat what was chosen as a deadlock's victim. */
const ask = (text: string, values: unknown[]) => () => database.query(text, values);

test("two cancellations in bulk of what was only claimed", async () => {
  const { one, other, between } = await twoSides("claimed");
  const cancel = (tasks: readonly Claimed[]) => ask("select * from everbeat.cancel_tasks($1, 0, null)", [ids(tasks)]);
  await atOnce(between, [cancel(one), cancel(other)]);
  for (const id of ids([...one, ...other])) expect((await everbeat.tasks.show(id)).state).toBe("cancelled");
});

test("two that take running tasks away in bulk", async () => {
  const { one, other, between } = await twoSides("running");
  const retry = (tasks: readonly Claimed[]) => ask("select * from everbeat.retry_tasks($1, true)", [ids(tasks)]);
  await atOnce(between, [retry(one), retry(other)]);
  for (const id of ids([...one, ...other])) expect((await everbeat.tasks.show(id)).state).toBe("pending");
});

test("a cancellation that is enforced, beside one that takes away", async () => {
  const { one, other, between } = await twoSides("running");
  await database.query("select everbeat.cancel_tasks($1, 0, null)", [ids(one)]);
  await atOnce(between, [
    ask("select everbeat.force_cancels($1, $2, $3)", [...lists(one), one.map(({ owner }) => owner)]),
    ask("select * from everbeat.retry_tasks($1, true)", [ids(other)]),
  ]);
  for (const id of ids(one)) expect((await everbeat.tasks.show(id)).state).toBe("cancelled");
});

test("attempts that are ended for having stalled, beside a batch that completes", async () => {
  const { one, other, between } = await twoSides("running");
  const outcomes = one.map(({ claimId }) => ({ claim: claimId, to: "failed", outcome: "failed" }));
  // As a sweep has begun to listen that could have heard of progress.
  await database.query("select everbeat.begin_sweep($1, 0, 60000, 1, true)", [one[0]?.owner]);
  await atOnce(between, [
    ask("select everbeat.end_stalled($1, $2, array_fill(-1000000, array[3]), $3)", [
      ...lists(one),
      JSON.stringify(outcomes),
    ]),
    ask("select everbeat.end_claims($1, $2, '[]')", lists(other)),
  ]);
  for (const id of ids(one)) expect((await everbeat.tasks.show(id)).state).toBe("failed");
  for (const id of ids(other)) expect((await everbeat.tasks.show(id)).state).toBe("completed");
});

test("two transactions of handlers that complete several tasks each", async () => {
  const { one, other, between } = await twoSides("running");
  const completeAll = (tasks: readonly Claimed[]) => async () => {
    const client = new pg.Client(database.url);
    await client.connect();
    onTestFinished(() => client.end());
    await client.query("begin");
    for (const { claimId, taskId, owner } of tasks) {
      const claim = createClaimHandle({
        ...{ claimId, taskId, name: "noop", replicaId: owner as never, schema: "everbeat", resultLimitBytes: 1_000 },
      });
      await claim.completeIn(client, 1);
    }
    await client.query("commit");
  };
  await atOnce(between, [completeAll(one), completeAll(other)]);
  for (const id of ids([...one, ...other])) expect((await everbeat.tasks.show(id)).state).toBe("completed");
});
