/**
 * A task's row goes from table to table, and each statement that moves it names the columns by itself, since one list for all would cost the
 * claim. So here is what each leaves out. A column that a table gains is asked for here, once for each statement that must decide about it.
 */
import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { openTestEverbeat } from "../support/database.ts";

const { database } = await openTestEverbeat();
const root = new URL("../../migrations/routines/", import.meta.url);
const inserts = readdirSync(root, { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".sql"))
  .flatMap((file) => {
    const text = readFileSync(new URL(file, root), "utf8");
    const found = text.matchAll(/insert into (task|ready|parked|running|ended|attempt) \(([^)]+)\)/g);
    return [...found].map(([, table = "", columns = ""]) => ({
      ...{ routine: file.replace(/\.sql$/, ""), table, columns: columns.split(",").map((column) => column.trim()) },
    }));
  });

const columnsOf = async (table: string) =>
  (
    await database.query<{ name: string }>(
      "select attname as name from pg_attribute where attrelid = ('everbeat.' || $1)::regclass and attnum > 0 and not attisdropped",
      [table],
    )
  ).map(({ name }) => name);

const WITHOUT_TERMS = [
  "expires_at",
  "unique_key",
  "exclusive_key",
  "exclusive_limit",
  "rate_key",
  "rate_limit",
  "rate_per_ms",
];
const COUNTS = ["attempt", "failures", "crashes"];
/** Only a new task waits with its input. */
const NOT_NEW = ["input"];

/** By table: the routines that insert into it, in their order, and what each leaves to the default or to null. */
const LEFT_OUT: Record<string, [routine: string, columns: readonly string[]][]> = {
  task: [
    ["enqueue/insert_task", ["created_at", "metadata", ...WITHOUT_TERMS]],
    ["enqueue/insert_tasks", ["created_at"]],
    ["enqueue/insert_tasks", ["created_at"]],
  ],
  ready: [
    ["claim/release_claims", NOT_NEW],
    ["end/end_claims", NOT_NEW],
    ["enqueue/insert_task", [...COUNTS, "expires_at"]],
    ["enqueue/insert_tasks", COUNTS],
    ["enqueue/insert_tasks", [...COUNTS, "input"]],
    ["gates/make_ready", NOT_NEW],
    // It starts over.
    ["orders/retry_tasks", ["failures", "crashes", ...NOT_NEW]],
  ],
  parked: [["gates/admit", []]],
  running: [["claim/claim_tasks", ["cancel_requested_at", "cancel_force_at", "cancel_reason", "runner_id"]]],
  ended: [
    ["end/end_claims", ["error", "error_code"]],
    ["end/end_claims", []],
    ["pending/end_pending", ["claim_id", "replica_id", "claimed_at", "started_at", "result"]],
  ],
  attempt: [
    ["end/end_claims", []],
    ["orders/retry_tasks", []],
  ],
};

test.each(Object.entries(LEFT_OUT))(
  "what is moved into %s takes along every column but these",
  async (table, expected) => {
    const all = await columnsOf(table);
    const found = inserts
      .filter((insert) => insert.table === table)
      .map(({ routine, columns }) => [routine, all.filter((column) => !columns.includes(column)).sort()]);
    const sorted = (list: unknown[][]) => list.map((entry) => JSON.stringify(entry)).sort();
    expect(sorted(found)).toEqual(sorted(expected.map(([routine, columns]) => [routine, [...columns].sort()])));
  },
);

test("what is known of a task while it is ready is known while it is parked or running, too", async () => {
  const lacking = async (table: string) => {
    const has = await columnsOf(table);
    return (await columnsOf("ready")).filter((column) => !has.includes(column)).sort();
  };
  // What is parked is gated, or it would not be parked.
  expect(await lacking("parked")).toEqual(["gated", ...NOT_NEW]);
  expect(await lacking("running")).toEqual(NOT_NEW);
});

/**
 * A claim returns a task that waits with its input without a look at `task`. What it would have to know from there must be in `ready`, or keep
 * the task from waiting so. Here is each column of `task`, the last kind with terms that set it.
 */
const IN_READY = ["id", "name", "queue", "priority", "run_at", "input", "expires_at"];
const NEEDS_NO_LOOK = { created_at: "is the same as run_at", unique_key: "is nothing that a claim needs" };
const key = { exclusiveKey: "k" };
const rate = { rateLimit: { key: "k", limit: 1, per: "1s" } };
const KEEPS_FROM_IT: Record<string, object> = {
  ...{ metadata: { metadata: { a: 1 } }, exclusive_key: key, exclusive_limit: key },
  ...{ rate_key: rate, rate_limit: rate, rate_per_ms: rate },
};

describe("a task that waits with its input", () => {
  test("has nothing in `task` that its claim would need, column by column", async () => {
    const named = [...IN_READY, ...Object.keys(NEEDS_NO_LOOK), ...Object.keys(KEEPS_FROM_IT)];
    expect((await columnsOf("task")).sort()).toEqual(named.sort());
    const inReady = await columnsOf("ready");
    expect(IN_READY.filter((name) => !inReady.includes(name === "id" ? "task_id" : name))).toEqual([]);
  });

  test("is any that has no such terms", async () => {
    expect(await waitsWithInput({})).toMatchObject({ hasInput: true });
  });

  test.each(Object.entries(KEEPS_FROM_IT))("is none with a %s", async (column, terms) => {
    const { hasInput, task } = await waitsWithInput(terms);
    expect(task[column]).not.toBeNull();
    expect(hasInput).toBe(false);
  });
});

async function waitsWithInput(terms: object) {
  const [put] = await database.query<{ id: string }>("select everbeat.enqueue('noop', '1', $1) as id", [terms]);
  const [found] = await database.query<{ hasInput: boolean; task: Record<string, unknown> }>(
    `select r.input is not null as "hasInput", row_to_json(t) as task
     from everbeat.task t join everbeat.ready r on r.task_id = t.id where t.id = $1`,
    [put?.id],
  );
  return found as NonNullable<typeof found>;
}
