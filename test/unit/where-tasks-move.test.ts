/**
 * Where a task's row may come into a table and leave it: one list for all SQL. A new statement that moves tasks goes through one of these routines,
 * or is added here after its author has read "Ends and beginnings" in ARCHITECTURE.md.
 */
import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";

const root = new URL("../../", import.meta.url);
const files = ["migrations/routines", "src/sql", "src/database"].flatMap((folder) =>
  readdirSync(new URL(folder, root), { recursive: true, encoding: "utf8" })
    .filter((file) => /\.(sql|ts)$/.test(file))
    .map((file) => ({ path: `${folder}/${file}`, text: readFileSync(new URL(`${folder}/${file}`, root), "utf8") })),
);

/** In which routines each of these statements stands, and why. */
const MOVES: Record<string, Record<string, string>> = {
  "insert into ended": {
    "end/end_claims": "the end of whatever was claimed",
    "pending/end_pending": "the end of whatever waits",
  },
  "delete from ended": {
    "orders/retry_tasks": "a failed task starts over",
    "retention/delete_ended": "it leaves the record",
  },
  "insert into ready": {
    "enqueue/insert_task": "a new one, in fewer steps",
    "enqueue/insert_tasks": "new ones",
    "end/end_claims": "another attempt",
    "claim/release_claims": "a claim is given back",
    "gates/make_ready": "its key is free",
    "orders/retry_tasks": "a failed task starts over",
  },
  "delete from ready": {
    "pending/leave_pending": "it does not wait any more, and was not claimed",
    "claim/claim_tasks": "it is claimed",
    "gates/admit": "it is parked",
  },
  "insert into parked": { "gates/admit": "it is parked" },
  "delete from parked": {
    "pending/leave_pending": "it does not wait any more, and was not claimed",
    "gates/make_ready": "its key is free",
  },
  "insert into running": { "claim/claim_tasks": "it is claimed" },
  "delete from running": {
    "end/end_claims": "its attempt has ended",
    "claim/release_claims": "a claim is given back",
  },
  "insert into attempt": {
    "end/end_claims": "an attempt that another one follows",
    "orders/retry_tasks": "the last attempt of a task that starts over",
  },
};

/** What whoever does the one must do, too. */
const ALONG: [move: string, call: RegExp, why: string][] = [
  ["insert into ended", /perform after_end\(/, "what hangs on an end is told of each"],
  ["insert into ready", /perform add_lanes\(/, "claims search in lanes: a task without one is never found"],
];

/** As SQL has them, and as a statement of TypeScript has them, with the schema before the table. */
const statement = (move: string) => new RegExp(`\\b${move.replace(/ (\w+)$/, " (?:\\$\\{[^}]*\\}\\.)?$1")}\\b`);
const named = (path: string) => path.replace(/^migrations\/routines\//, "").replace(/\.sql$/, "");
const without = (text: string) => text.replace(/^\s*(--|\/\/|\*).*$/gm, "");

describe("a task's row", () => {
  test.each(Object.entries(MOVES))("%s: in these routines and no others", (move, routines) => {
    const found = files.filter(({ text }) => statement(move).test(without(text)));
    expect(found.map(({ path }) => named(path)).sort()).toEqual(Object.keys(routines).sort());
  });

  test.each(ALONG)("%s, and so %s: %s", (move, call) => {
    const lacking = files.filter(({ text }) => statement(move).test(text) && !call.test(text));
    expect(lacking.map(({ path }) => named(path))).toEqual([]);
  });

  test("is looked for in a statement of TypeScript, too", () => {
    expect(statement("delete from ready").test(`delete from \${store.schema}.ready where`)).toBe(true);
    expect(statement("delete from ready").test(`delete from \${s}.ready`)).toBe(true);
    expect(statement("delete from ready").test("delete from already")).toBe(false);
  });
});

/** Who looks for pending tasks in more than one place where they may be. Everybody else asks `pending` or `pending_of`. */
const LOOKS_EVERYWHERE: Record<string, string> = {
  "views/pending": "all of them",
  "pending/pending_of": "certain ones",
  "pending/leave_pending": "takes certain ones out",
  "views/tasks": "joins that can be hashed for a long list, and left out where no column of theirs is asked for",
  "src/sql/task-filter.ts": "a page of each way in which they wait, by the index of each",
  "upkeep/overdue_tasks": "locks what it finds, which a union cannot",
  "crashes/forgive_crash": "changes what it finds",
  "gates/admit": "moves them from one to the other",
  "gates/make_ready": "moves them back",
  "src/sql/queues.ts": "counts them apart",
  "src/sql/explain-task.ts": "counts those that are before one task, where it waits",
  "src/sql/testing.ts": "moves all times of all tables",
};

test("pending tasks are looked for everywhere by these and no others", () => {
  const names = (text: string, table: string) =>
    new RegExp(`\\b(?:from|join|update|into) (?:only )?(?:\\$\\{[^}]*\\}\\.)?${table}\\b`).test(text) ||
    text.includes(`page("${table}"`) ||
    new RegExp(`^\\s*${table}: \\[`, "m").test(text);
  const found = files.filter(({ text }) => ["ready", "parked"].every((table) => names(without(text), table)));
  expect(found.map(({ path }) => named(path)).sort()).toEqual(Object.keys(LOOKS_EVERYWHERE).sort());
});
