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

// Recovery and upkeep give up soon where they have to wait, as everybody does who waits for a key. Here somebody waits on purpose, for as long as it
// takes to see that.
for (const { name } of await database.query<{ name: string }>(
  "select oid::regprocedure::text as name from pg_proc where 'lock_timeout=500ms' = any (proconfig)",
)) {
  await database.query(`alter function ${name} set lock_timeout = '60s'`);
}
await database.query(`create or replace function everbeat.wait_for_key(p_key text, p_patience_ms integer) returns boolean
  language plpgsql set search_path from current set lock_timeout = '60s' as $$
  begin
    perform pg_advisory_xact_lock(everbeat.gate_lock_id('exclusive', p_key));
    return true;
  end $$`);

/**
 * Owners in the order in which they are locked, one for each of three places or the same for all, each with a task for either side. The keys of
 * one side run the other way round.
 */
async function twoSides(state: "claimed" | "running", owners: 1 | 3 = 3) {
  const queue = randomUUID();
  const claimers = Array.from({ length: owners }, () => handClaimer(everbeat.database, ["noop"])).sort((a, b) =>
    a.replicaId < b.replicaId ? -1 : 1,
  );
  const claimerOf = (place: number) => claimers[place % owners] as (typeof claimers)[number];
  const [a, m, n, z] = ["a", "m", "n", "z"].map((letter) => `${letter} ${queue}`) as [string, string, string, string];
  const sides = [
    [z, m, a],
    [a, n, z],
  ];
  const claimed: Claimed[][] = [[], []];
  for (const place of [0, 1, 2]) {
    const claimer = claimerOf(place);
    for (const [side, keys] of sides.entries()) {
      await everbeat.enqueue(noop, 1, { queue, exclusiveKey: keys[place] as string, exclusiveLimit: 2 });
      const demand = state === "running" ? { run: 1, prefetch: 0 } : { run: 0, prefetch: 1 };
      const [task] = await claimer.claim({ queues: [queue], room: [null], ...demand });
      claimed[side]?.push({ ...(task as ClaimedTask), owner: claimer.replicaId });
    }
  }
  /** Tasks that wait behind the keys which both sides have. */
  const park = async () => {
    for (const exclusiveKey of [a, z]) await everbeat.enqueue(noop, 1, { queue, exclusiveKey, exclusiveLimit: 2 });
    await claimerOf(0).claim({ queues: [queue], room: [null] });
    expect(await database.query("select from everbeat.parked where queue = $1", [queue])).toHaveLength(2);
  };
  return { one: claimed[0] as Claimed[], other: claimed[1] as Claimed[], between: [m, n], park };
}

/** While their middle keys are held, each side has what it locks before, beginning with the first; then they go on. */
async function atOnce(between: readonly string[], works: readonly (() => Promise<unknown>)[]): Promise<void> {
  const { begin, goOn } = await held(between);
  for (const work of works) await begin(work);
  await goOn();
}

/** What is begun is seen to wait for a key, as long as these are held. */
async function held(between: readonly string[]) {
  const holder = new pg.Client(database.url);
  await holder.connect();
  onTestFinished(() => holder.end());
  await holder.query("begin");
  for (const key of between) {
    await holder.query("select pg_advisory_xact_lock(everbeat.gate_lock_id('exclusive', $1))", [key]);
  }
  const begun: Promise<unknown>[] = [];
  const begin = async (work: () => Promise<unknown>) => {
    const done = work();
    done.catch(() => {});
    begun.push(done);
    const waiting = eventually(
      () =>
        database.query(
          "select from pg_locks where locktype = 'advisory' and not granted and database = (select oid from pg_database where datname = current_database())",
        ),
      { until: (rows) => rows.length === begun.length, what: `${begun.length} to wait for a key` },
    );
    // What fails before it waits is the reason why it is not seen to wait.
    await Promise.race([waiting, done]);
    await waiting;
  };
  const goOn = async () => {
    await holder.query("commit");
    await Promise.all(begun);
  };
  return { begin, goOn };
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
  await database.query("select everbeat.begin_sweep($1, 60000, true)", [one[0]?.owner]);
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

test("the recovery of what one owner ran, beside one that takes away in bulk", async () => {
  const { one, other, between } = await twoSides("running", 1);
  const outcomes = one.map(({ claimId }) => ({ claim: claimId, to: "failed", outcome: "crashed" }));
  await atOnce(between, [
    ask("select everbeat.recover_claims($1, $2, $3, $4, '[]')", [
      ...[one[0]?.owner, ...lists(one), JSON.stringify(outcomes)],
    ]),
    ask("select * from everbeat.retry_tasks($1, true)", [ids(other)]),
  ]);
  for (const id of ids(one)) expect((await everbeat.tasks.show(id)).state).toBe("failed");
  for (const id of ids(other)) expect((await everbeat.tasks.show(id)).state).toBe("pending");
});

test("the recovery of what one owner had only claimed, beside a cancellation in bulk", async () => {
  const { one, other, between } = await twoSides("claimed", 1);
  await atOnce(between, [
    ask("select everbeat.release_absent($1, $2, $3)", [one[0]?.owner, ...lists(one)]),
    ask("select * from everbeat.cancel_tasks($1, 0, null)", [ids(other)]),
  ]);
  for (const id of ids(one)) expect((await everbeat.tasks.show(id)).state).toBe("pending");
  for (const id of ids(other)) expect((await everbeat.tasks.show(id)).state).toBe("cancelled");
});

test("two that give back what they have claimed", async () => {
  const { one, other, between } = await twoSides("claimed");
  const release = (tasks: readonly Claimed[]) => ask("select everbeat.release_claims($1, $2)", lists(tasks));
  await atOnce(between, [release(one), release(other)]);
  for (const id of ids([...one, ...other])) expect((await everbeat.tasks.show(id)).state).toBe("pending");
});

test("upkeep that enforces cancellations and lets parked tasks go, beside a batch that completes", async () => {
  const { one, other, between, park } = await twoSides("running");
  await park();
  await database.query("select everbeat.cancel_tasks($1, 0, null)", [ids(one)]);
  await database.query(
    "update everbeat.running set cancel_force_at = now() - interval '1 minute' where claim_id = any ($1)",
    [one.map(({ claimId }) => claimId)],
  );
  await atOnce(between, [
    ask("select everbeat.end_claims($1, $2, '[]')", lists(other)),
    ask("select * from everbeat.run_upkeep(100)", []),
  ]);
  for (const id of ids(one)) expect((await everbeat.tasks.show(id)).state).toBe("cancelled");
  for (const id of ids(other)) expect((await everbeat.tasks.show(id)).state).toBe("completed");
});

test("whoever lets parked tasks go, of any key in any order, waits for no key beside a batch that completes", async () => {
  const { other, between, park } = await twoSides("running");
  await park();
  const { begin, goOn } = await held(between);
  await begin(ask("select everbeat.end_claims($1, $2, '[]')", lists(other)));
  const client = new pg.Client(database.url);
  await client.connect();
  onTestFinished(() => client.end());
  await client.query("set statement_timeout = '10s'");
  await client.query("begin");
  await client.query("select everbeat.unpark_every_kind(100)");
  const done = goOn();
  await client.query("commit");
  await done;
  for (const id of ids(other)) expect((await everbeat.tasks.show(id)).state).toBe("completed");
});
