/** Whoever ends a task, by whichever way, what hangs on an end is told of it: once, in the same transaction, with the end on record. */
import { randomUUID } from "node:crypto";
import pg from "pg";
import { beforeAll, beforeEach, expect, onTestFinished, test } from "vitest";
import type { EnqueueOptions } from "../../src/queue/enqueue-options.ts";
import { createClaimHandle } from "../../src/runner/claim-handle.ts";
import type { ClaimedTask } from "../../src/sql/claims.ts";
import { endingValues, type Outcome } from "../../src/sql/outcomes.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { emptyTables } from "../model/tables.ts";
import { completed, handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";

const { everbeat, database } = await openTestEverbeat();
const noop = defineTask({ name: "noop", run: (_input: unknown) => null });
const claimer = handClaimer(everbeat.database, ["noop"]);
const owner = claimer.replicaId;

beforeAll(() =>
  database.query(`
    create table told (task uuid, how text, is_seen boolean);
    create or replace function everbeat.after_end(p_ended uuid[], p_again uuid[] default null) returns void
    language plpgsql set search_path from current as $$
    begin
      insert into public.told
      select t, e.state, e.state is not null from unnest(p_ended) t left join everbeat.ended e on e.task_id = t
      union all
      select t, 'again', r.task_id is not null from unnest(p_again) t left join everbeat.ready r on r.task_id = t;
    end $$`),
);
beforeEach(async () => {
  await emptyTables(everbeat.database);
  await database.query("truncate told");
});

const put = (options: EnqueueOptions = {}) => everbeat.enqueue(noop, 1, options);
/** One that is running, or has only been claimed. */
async function held(state: "running" | "claimed" = "running"): Promise<ClaimedTask> {
  await put();
  const [task] = await claimer.claim(state === "running" ? { run: 1 } : { run: 0, prefetch: 1 });
  return task as ClaimedTask;
}
const of = (task: ClaimedTask, more: Partial<Outcome> = {}): Outcome => ({ ...completed(task, owner), ...more });
const error = { code: "X", message: "x" };
const failing = { to: "failed", outcome: "failed", error } as const;
/** What the functions that end claims are given: claims, tasks, outcomes. */
const given = (task: ClaimedTask, more: Partial<Outcome> = failing) => endingValues([of(task, more)]).values;
const overdue = (table: string) =>
  database.query(`update everbeat.${table} set expires_at = now() - interval '1 minute'`);
const upkeep = () => database.query("select * from everbeat.run_upkeep(100)");

async function inTransaction(task: ClaimedTask): Promise<void> {
  const client = new pg.Client(database.url);
  await client.connect();
  onTestFinished(() => client.end());
  const more = { name: "noop", replicaId: owner, schema: "everbeat", resultLimitBytes: 1_000 };
  await client.query("begin isolation level repeatable read");
  await createClaimHandle({ ...task, ...more }).completeIn(client, 1);
  await client.query("commit");
}

/** The states in which tasks ended, and `again` for an attempt that another one follows. */
const WAYS: Record<string, { told: string[]; act: () => Promise<unknown> }> = {
  "a worker whose task completed without a result": {
    told: ["completed"],
    act: async () => claimer.complete(await held()),
  },
  "a worker with outcomes of every kind in one statement": {
    told: ["again", "cancelled", "completed", "failed"],
    async act() {
      const retried = { to: "pending", outcome: "failed", error } as const;
      const [one, other, third, fourth] = [await held(), await held(), await held(), await held()];
      await everbeat.tasks.cancel([fourth.taskId]);
      await claimer.end([of(one, { resultJson: "1" }), of(other, failing), of(third, retried), of(fourth, retried)]);
    },
  },
  "a transaction of a handler's own": { told: ["completed"], act: async () => inTransaction(await held()) },
  "whoever cancels tasks that wait, however they wait": {
    told: ["cancelled", "cancelled", "cancelled"],
    async act() {
      await put({ exclusiveKey: "k" });
      const parked = await put({ exclusiveKey: "k" });
      await claimer.claim();
      await everbeat.tasks.cancel([await put(), await put({ delay: "1h" }), parked]);
    },
  },
  "whoever cancels a task that was only claimed": {
    told: ["cancelled"],
    act: async () => everbeat.tasks.cancel([(await held("claimed")).taskId]),
  },
  "upkeep, whose patience with a cancelled task is over": {
    told: ["cancelled"],
    async act() {
      await everbeat.tasks.cancel([(await held()).taskId]);
      await database.query("update everbeat.running set cancel_force_at = now() - interval '1 minute'");
      await upkeep();
    },
  },
  "an operator who takes a task from its worker": {
    told: ["again"],
    act: async () => everbeat.tasks.retry([(await held()).taskId], { force: true }),
  },
  "upkeep, of tasks that have expired": {
    told: ["expired", "expired"],
    async act() {
      await put({ expiresIn: "1h", exclusiveKey: "k" });
      await put({ expiresIn: "1h" });
      await overdue("ready");
      await upkeep();
    },
  },
  "upkeep, of a task that has expired behind its key": {
    told: ["expired"],
    async act() {
      await put({ exclusiveKey: "k" });
      await put({ exclusiveKey: "k", expiresIn: "1h" });
      await claimer.claim();
      await overdue("parked");
      await upkeep();
    },
  },
  "upkeep, of a row that is not where its task says": {
    told: ["expired"],
    async act() {
      await put({ expiresIn: "1h" });
      await database.query("update everbeat.ready set priority = 5");
      await overdue("ready");
      await upkeep();
    },
  },
  "a claim that meets a task that has expired": {
    told: ["expired"],
    async act() {
      await put({ expiresIn: "1h" });
      await overdue("ready");
      await claimer.claim();
    },
  },
  "whoever sets a task aside that cannot be claimed": {
    told: ["failed"],
    async act() {
      await put();
      const bad = "select row(r, 'it is odd', 'EB005')::everbeat.bad_row from everbeat.ready r";
      await database.query(`select * from everbeat.set_aside((${bad}), false)`);
    },
  },
  "the reaper, of a dead replica's": {
    told: ["failed"],
    act: async () =>
      database.query("select everbeat.recover_claims($1, $2, $3, $4, '[]')", [owner, ...given(await held())]),
  },
  "a worker whose runner died": {
    told: ["failed"],
    act: async () =>
      database.query("select everbeat.end_crashed_claims($1, $2, $3, array[$4::uuid])", [
        ...given(await held()),
        owner,
      ]),
  },
  "the heart of a process that is blocked": {
    told: ["failed"],
    act: async () =>
      database.query("select everbeat.end_blocked_replica($1, $2, $3, $4, '{}')", [owner, ...given(await held())]),
  },
  "the reaper, of a task that has stalled": {
    told: ["again"],
    async act() {
      const task = await held();
      const [claims, tasks, outcomes] = given(task, { to: "pending", outcome: "failed", error });
      await database.query("select everbeat.begin_sweep($1, 60000, true)", [owner]);
      const end = "select everbeat.end_stalled($1, $2, array[-1000000], $3)";
      expect(await database.query(end, [claims, tasks, outcomes])).toHaveLength(1);
    },
  },
};

for (const [who, { told, act }] of Object.entries(WAYS)) {
  test(`by ${who}`, async () => {
    await act();
    const rows = await database.query<{ how: string; is_seen: boolean }>("select * from told");
    expect(rows.map(({ how }) => how).sort()).toEqual(told);
    expect(rows.filter((row) => !row.is_seen)).toEqual([]);
    const ended = "select task_id from everbeat.ended except select task from told";
    expect(await database.query(ended)).toEqual([]);
  });
}

test("nobody is told of a claim that is given back, of a task that is replaced, nor of an end that was refused", async () => {
  const task = await held("claimed");
  await database.query("select everbeat.release_claims($1, $2)", [[task.claimId], [task.taskId]]);
  const key = { uniqueKey: randomUUID(), onDuplicate: "replace" } as const;
  expect(await put(key)).toBe(await put(key));
  await claimer.end([{ ...of(task), claim: task.claimId }]);
  expect(await database.query("select * from told")).toEqual([]);
});
