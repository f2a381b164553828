/** Every way in which a task, or an attempt of it, ends: up to the moment before, and then the end itself. */
import { randomUUID } from "node:crypto";
import pg from "pg";
import { expect, onTestFinished } from "vitest";
import type { Everbeat } from "../../src/everbeat.ts";
import type { EnqueueOptions } from "../../src/queue/enqueue-options.ts";
import { createClaimHandle } from "../../src/runner/claim-handle.ts";
import type { ClaimedTask } from "../../src/sql/claims.ts";
import { endingValues, type Outcome } from "../../src/sql/outcomes.ts";
import { defineTask } from "../../src/task/define-task.ts";
import type { TaskId } from "../../src/task/ids.ts";
import type { EndedState } from "../../src/task/states.ts";
import { completed, handClaimer } from "./claims.ts";
import type { TestDatabase } from "./database.ts";

/** `again`: only an attempt has ended, and another one follows. */
export type EndedAs = EndedState | "again";

export interface WayToEnd {
  /** How each of the tasks ends, in their order. */
  readonly as: readonly EndedAs[];
  /** Whether they were claimed, and had their exclusive keys, or waited. */
  readonly were: "claimed" | "waiting";
  prepare(): Promise<Prepared>;
}

export interface Prepared {
  readonly tasks: readonly TaskId[];
  end(): Promise<unknown>;
}

const error = { code: "X", message: "x" };
const failing = { to: "failed", outcome: "failed", error } as const;
const retried = { to: "pending", outcome: "failed", error } as const;

/** On tables that hold nothing else. */
export function waysToEnd({ everbeat, database }: { everbeat: Everbeat; database: TestDatabase }) {
  const noop = defineTask({ name: "noop", run: (_input: unknown) => null });
  const claimer = handClaimer(everbeat.database, ["noop"]);
  const owner = claimer.replicaId;

  const put = (options: EnqueueOptions = {}): Promise<TaskId> => everbeat.enqueue(noop, 1, options);
  /** One that is running, or has only been claimed, and has an exclusive key of its own. */
  async function held(state: "running" | "claimed" = "running"): Promise<ClaimedTask> {
    await put({ exclusiveKey: randomUUID() });
    const [task] = await claimer.claim(state === "running" ? { run: 1 } : { run: 0, prefetch: 1 });
    return task as ClaimedTask;
  }
  const of = (task: ClaimedTask, more: Partial<Outcome> = {}): Outcome => ({ ...completed(task, owner), ...more });
  /** What the functions that end claims are given: claims, tasks, outcomes. */
  const given = (task: ClaimedTask, more: Partial<Outcome> = failing) => endingValues([of(task, more)]).values;
  const overdue = (table: string) =>
    database.query(`update everbeat.${table} set expires_at = now() - interval '1 minute'`);
  const upkeep = () => database.query("select * from everbeat.run_upkeep(100)");

  /** One task that is held, and how it ends. */
  const ofHeld = (end: (task: ClaimedTask) => Promise<unknown>, state?: "claimed") => async () => {
    const task = await held(state);
    return { tasks: [task.taskId], end: () => end(task) };
  };

  async function inTransaction(task: ClaimedTask, isolation: string): Promise<void> {
    const client = new pg.Client(database.url);
    await client.connect();
    onTestFinished(() => client.end());
    const more = { name: "noop", replicaId: owner, schema: "everbeat", resultLimitBytes: 1_000 };
    await client.query(`begin isolation level ${isolation}`);
    await createClaimHandle({ ...task, ...more }).completeIn(client, 1);
    await client.query("commit");
  }

  const ways: Record<string, WayToEnd> = {
    "a worker whose task completed without a result": {
      as: ["completed"],
      were: "claimed",
      prepare: ofHeld((task) => claimer.complete(task)),
    },
    "a worker with outcomes of every kind in one statement": {
      as: ["completed", "failed", "again", "cancelled"],
      were: "claimed",
      async prepare() {
        const held4 = [await held(), await held(), await held(), await held()] as const;
        const [one, other, third, fourth] = held4;
        await everbeat.tasks.cancel([fourth.taskId]);
        const outcomes = [of(one, { resultJson: "1" }), of(other, failing), of(third, retried), of(fourth, retried)];
        return { tasks: held4.map(({ taskId }) => taskId), end: () => claimer.end(outcomes) };
      },
    },
    "a transaction of a handler's own": {
      as: ["completed"],
      were: "claimed",
      prepare: ofHeld((task) => inTransaction(task, "read committed")),
    },
    "a transaction of a handler's own, in an old snapshot": {
      as: ["completed"],
      were: "claimed",
      prepare: ofHeld((task) => inTransaction(task, "repeatable read")),
    },
    "whoever cancels tasks that wait, however they wait": {
      as: ["cancelled", "cancelled", "cancelled"],
      were: "waiting",
      async prepare() {
        await put({ exclusiveKey: "k" });
        const parked = await put({ exclusiveKey: "k" });
        await claimer.claim();
        const tasks = [await put(), await put({ delay: "1h" }), parked];
        return { tasks, end: () => everbeat.tasks.cancel(tasks) };
      },
    },
    "whoever cancels a task that was only claimed": {
      as: ["cancelled"],
      were: "claimed",
      prepare: ofHeld(({ taskId }) => everbeat.tasks.cancel([taskId]), "claimed"),
    },
    "upkeep, whose patience with a cancelled task is over": {
      as: ["cancelled"],
      were: "claimed",
      async prepare() {
        const { taskId } = await held();
        await everbeat.tasks.cancel([taskId]);
        await database.query("update everbeat.running set cancel_force_at = now() - interval '1 minute'");
        return { tasks: [taskId], end: upkeep };
      },
    },
    "an operator who takes a task from its worker": {
      as: ["again"],
      were: "claimed",
      prepare: ofHeld(({ taskId }) => everbeat.tasks.retry([taskId], { force: true })),
    },
    "upkeep, of tasks that have expired": {
      as: ["expired", "expired"],
      were: "waiting",
      async prepare() {
        const tasks = [await put({ expiresIn: "1h", exclusiveKey: "k" }), await put({ expiresIn: "1h" })];
        await overdue("ready");
        return { tasks, end: upkeep };
      },
    },
    "upkeep, of a task that has expired behind its key": {
      as: ["expired"],
      were: "waiting",
      async prepare() {
        await put({ exclusiveKey: "k" });
        const parked = await put({ exclusiveKey: "k", expiresIn: "1h" });
        await claimer.claim();
        await overdue("parked");
        return { tasks: [parked], end: upkeep };
      },
    },
    "upkeep, of a row that is not where its task says": {
      as: ["expired"],
      were: "waiting",
      async prepare() {
        const tasks = [await put({ expiresIn: "1h" })];
        await database.query("update everbeat.ready set priority = 5");
        await overdue("ready");
        return { tasks, end: upkeep };
      },
    },
    "a claim that meets a task that has expired": {
      as: ["expired"],
      were: "waiting",
      async prepare() {
        const tasks = [await put({ expiresIn: "1h" })];
        await overdue("ready");
        return { tasks, end: () => claimer.claim() };
      },
    },
    "whoever sets a task aside that cannot be claimed": {
      as: ["failed"],
      were: "waiting",
      async prepare() {
        const tasks = [await put()];
        const bad = "select row(r, 'it is odd', 'EB005')::everbeat.bad_row from everbeat.ready r";
        return { tasks, end: () => database.query(`select * from everbeat.set_aside((${bad}), false)`) };
      },
    },
    "the reaper, of a dead replica's": {
      as: ["failed"],
      were: "claimed",
      prepare: ofHeld((task) =>
        database.query("select everbeat.recover_claims($1, $2, $3, $4, '[]')", [owner, ...given(task)]),
      ),
    },
    "a worker whose runner died": {
      as: ["failed"],
      were: "claimed",
      prepare: ofHeld((task) =>
        database.query("select everbeat.end_crashed_claims($1, $2, $3, array[$4::uuid])", [...given(task), owner]),
      ),
    },
    "the heart of a process that is blocked": {
      as: ["failed"],
      were: "claimed",
      prepare: ofHeld((task) =>
        database.query("select everbeat.end_blocked_replica($1, $2, $3, $4, '{}')", [owner, ...given(task)]),
      ),
    },
    "the reaper, of a task that has stalled": {
      as: ["again"],
      were: "claimed",
      prepare: ofHeld(async (task) => {
        const [claims, tasks, outcomes] = given(task, retried);
        await database.query("select everbeat.begin_sweep($1, 60000, true)", [owner]);
        const end = "select everbeat.end_stalled($1, $2, array[-1000000], $3)";
        expect(await database.query(end, [claims, tasks, outcomes])).toHaveLength(1);
      }),
    },
  };
  return { ways, noop, claimer, put, held, of };
}
