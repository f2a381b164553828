/**
 * Whoever takes a task out of waiting finds it in whichever way it waits. It is in no place where tasks wait any more, what was counted of it goes along, and
 * what waits beside it stays.
 */
import { randomUUID } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { beforeEach, describe, expect, test } from "vitest";
import type { EnqueueOptions } from "../../src/queue/enqueue-options.ts";
import { defineTask } from "../../src/task/define-task.ts";
import type { TaskId } from "../../src/task/ids.ts";
import { emptyTables } from "../model/tables.ts";
import { changeFunction } from "../support/changed-function.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";

const { everbeat, database } = await openTestEverbeat();
const noop = defineTask({ name: "noop", run: (_input: unknown) => null });
const claimer = handClaimer(everbeat.database, ["noop"]);

beforeEach(() => emptyTables(everbeat.database));

const put = (options: EnqueueOptions): Promise<TaskId> => everbeat.enqueue(noop, "old", options);
/** As after a failure, a crash and a shutdown. Only what waits without its input can have been tried before. */
const tried = (table: string) => database.query(`update everbeat.${table} set attempt = 4, failures = 2, crashes = 1`);
const TRIED = { attempt: 3, failures: 2, crashes: 1 };
const NEW = { attempt: 0, failures: 0, crashes: 0 };

interface Waits {
  /** What `leave_pending` finds it by. */
  readonly by: string;
  readonly counted: typeof TRIED;
  put(options: EnqueueOptions): Promise<TaskId>;
}

const WAITING: Record<string, Waits> = {
  "without its input": {
    by: "task_id = any (p_tasks) and input is null",
    counted: TRIED,
    async put(options) {
      const id = await put({ ...options, id: randomUUID() });
      await tried("ready");
      return id;
    },
  },
  "with its input, where its task says": { by: "waits_at(r, t)", counted: NEW, put },
  "behind a key": {
    by: "delete from parked where task_id = any (p_tasks)",
    counted: TRIED,
    async put(options) {
      const exclusiveKey = randomUUID();
      await everbeat.enqueue(noop, "in front", { exclusiveKey });
      await claimer.claim();
      const id = await put({ ...options, exclusiveKey });
      await claimer.claim();
      await tried("parked");
      return id;
    },
  },
  "with its input, elsewhere": {
    by: "ctid = any (p_rows)",
    counted: NEW,
    async put(options) {
      const id = await put(options);
      await database.query("update everbeat.ready set priority = 5 where task_id = $1", [id]);
      return id;
    },
  },
};
type How = keyof typeof WAITING;
const ALL = Object.keys(WAITING);
const IN_READY = ALL.filter((how) => how !== "behind a key");
const WHERE_ITS_TASK_SAYS = ALL.filter((how) => how !== "with its input, elsewhere");

interface WayToLeave {
  /** How it may wait. A claim meets nothing that is parked; and orders about a task do not find a row in a place that the task does not name. */
  readonly waiting: readonly How[];
  readonly options?: EnqueueOptions;
  leave(id: TaskId): Promise<unknown>;
  readonly state: string;
}

const expire = (id: TaskId) =>
  Promise.all(
    ["ready", "parked"].map((table) =>
      database.query(`update everbeat.${table} set expires_at = now() - interval '1 minute' where task_id = $1`, [id]),
    ),
  );
const setAside = (id: TaskId) =>
  database.query(
    `select * from everbeat.set_aside((select row(r, 'it is odd', 'EB005')::everbeat.bad_row from everbeat.ready r where task_id = $1), false)`,
    [id],
  );
const unique = { uniqueKey: "u", onDuplicate: "replace" } as const;

const WAYS = {
  "whoever cancels it": {
    waiting: WHERE_ITS_TASK_SAYS,
    leave: (id) => everbeat.tasks.cancel([id]),
    state: "cancelled",
  },
  "upkeep, when it has expired": {
    waiting: ALL,
    options: { expiresIn: "1h" },
    async leave(id) {
      await expire(id);
      await database.query("select * from everbeat.run_upkeep(100)");
    },
    state: "expired",
  },
  "a claim that meets it, when it has expired": {
    waiting: IN_READY.filter((how) => WHERE_ITS_TASK_SAYS.includes(how)),
    options: { expiresIn: "1h" },
    async leave(id) {
      await expire(id);
      await claimer.claim({ queues: ["default"], room: [null] });
    },
    state: "expired",
  },
  "whoever sets it aside": { waiting: IN_READY, leave: setAside, state: "failed" },
  "whoever puts in another one with its unique key": {
    waiting: WHERE_ITS_TASK_SAYS,
    options: unique,
    leave: () => everbeat.enqueue(noop, "new", unique),
    state: "pending",
  },
} satisfies Record<string, WayToLeave>;
const ways: [who: string, way: WayToLeave][] = Object.entries(WAYS);

const rowsOf = async (id: TaskId) =>
  (
    await database.query(
      "select from everbeat.ready where task_id = $1 union all select from everbeat.parked where task_id = $1",
      [id],
    )
  ).length;

/** What became of one that waited like this, and how many rows of it are waiting; and of one that waits like it. */
async function leaves(how: How, { options, leave }: WayToLeave) {
  const waits = WAITING[how] as Waits;
  const beside = await waits.put({ queue: "beside" });
  const id = await waits.put(options ?? {});
  expect([await rowsOf(id), await rowsOf(beside)]).toEqual([1, 1]);
  await leave(id);
  const { state, attempt, failures, crashes, input } = await everbeat.tasks.show(id);
  return { rows: await rowsOf(id), beside: await rowsOf(beside), state, attempt, failures, crashes, input };
}

describe.each(ways)("%s", (_, way) => {
  test.each(way.waiting)("takes it out where it waits %s", async (how) => {
    const isNew = way.state === "pending";
    const counted = isNew ? NEW : (WAITING[how] as Waits).counted;
    const waits = isNew ? { rows: 1, input: "new" } : { rows: 0, input: "old" };
    expect(await leaves(how, way)).toEqual({ ...counted, ...waits, beside: 1, state: way.state });
  });
});

test.each(ALL)("one that waits %s is found by its part of leave_pending alone", async (how) => {
  const { by } = WAITING[how] as Waits;
  await changeFunction(database, "leave_pending", by, `${by} and false`);
  const way = how === "with its input, elsewhere" ? WAYS["whoever sets it aside"] : WAYS["whoever cancels it"];
  expect(await leaves(how, way)).toMatchObject({ rows: 1, beside: 1 });
});

test.each([true, false])(
  "a row that is one too many goes, and its task runs on (tasks may fail: %s)",
  async (mayFail) => {
    const id = await put({});
    await claimer.claim();
    await database.query(
      "insert into everbeat.ready (task_id, queue, priority, run_at, name) select id, queue, priority, run_at, name from everbeat.task",
    );
    const bad = "select row(r, 'it is odd', 'EB005')::everbeat.bad_row from everbeat.ready r";
    await database.query(`select * from everbeat.set_aside((${bad}), $1)`, [!mayFail]);
    expect(await rowsOf(id)).toBe(0);
    expect(await everbeat.tasks.show(id)).toMatchObject({ state: "running" });
  },
);

test("nobody else takes tasks out of waiting: whoever does is to be asked for here", () => {
  const folder = new URL("../../migrations/routines/", import.meta.url);
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".sql"));
  const callers = (name: string) =>
    files.filter((file) => {
      const text = readFileSync(new URL(file, folder), "utf8").replace(/^\s*--.*$/gm, "");
      return new RegExp(`(?<!function )\\b${name}\\(`).test(text);
    });
  expect(callers("leave_pending").sort()).toEqual([
    "enqueue/replace_pending.sql",
    "not-claimable/set_aside.sql",
    "pending/end_pending.sql",
  ]);
  expect(callers("end_pending").sort()).toEqual([
    "gates/admit.sql",
    "not-claimable/set_aside.sql",
    "orders/cancel_tasks.sql",
    "upkeep/expire_tasks.sql",
  ]);
});
