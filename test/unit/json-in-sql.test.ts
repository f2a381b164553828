/**
 * JSON that users may have written is stored to the letter, and no statement takes it apart: the server refuses the whole document where one string
 * of it holds `\u0000` or half a surrogate pair. What is searched for is a column.
 */
import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

/** What is taken apart besides parameters. Those are ours: what users say travels in them as text. */
const OURS: Record<string, string> = {
  "src/sql/fleet-settings.ts r.recovery": "a replica's settings of recovery, as they were checked",
  "src/sql/explain-task.ts n.vitals": "a runner's numbers",
  "src/sql/progress.ts b.tasks": "ids and names, which were text",
  "src/sql/alert-causes.ts .details":
    "only of alerts about blocked loops (an id, names and a stack, which were text) and about what cannot be claimed (a task's id)",
  "src/sql/claim-rows.ts to_json()": "a time, which reads the same whatever the DateStyle of the session",
  "src/sql/stale-tasks.ts to_json()": "a time, likewise",
  "src/sql/upkeep.ts to_json()": "a time, likewise",
  "migrations/routines/enqueue/enqueue_keyed.sql e.terms": "a part of a parameter",
  "migrations/routines/following/replica_changes.sql h.details": "the id of a replica, which was text",
  "migrations/routines/at-commit/guard_claim.sql outcome":
    "an outcome that waits for its commit, with its result as text",
  "migrations/routines/at-commit/check_at_commit.sql end_claims()": "what it answers",
  "migrations/routines/progress/end_stalled.sql o": "a part of a parameter",
  "migrations/routines/deaths/recover_claims.sql x": "a part of a parameter",
  "migrations/routines/runners/note_runners.sql x.claims": "a part of a parameter",
  "migrations/routines/runners/note_blocked_loop.sql x.task":
    "ids and a name, which PostgreSQL made from texts of its own",
  "migrations/routines/crashes/note_runner_suspects.sql x.crash": "a part of a parameter",
  "migrations/routines/crashes/note_other_suspects.sql x.crash": "a part of a parameter",
};

const root = new URL("../../", import.meta.url);
const files = ["migrations", "src/sql", "src/database"].flatMap((folder) =>
  readdirSync(new URL(folder, root), { recursive: true, encoding: "utf8" })
    .filter((file) => /\.(sql|ts)$/.test(file))
    .map((file) => `${folder}/${file}`)
    .map((path) => ({ path, text: readFileSync(new URL(path, root), "utf8") })),
);

test("JSON of users is taken apart by no statement", () => {
  const found = files.flatMap(({ path, text }) =>
    takenApart(text)
      .filter((what) => !isParameter(what))
      .map((what) => `${path} ${what}`),
  );
  // Both ways: nobody may lean on a line that is not needed any more.
  expect([...new Set(found)].toSorted()).toEqual(Object.keys(OURS).toSorted());
});

test.each([
  ["select a.details->>'part' from alert a", "a.details"],
  ["select details -> 'x' ->> 'y'", "details"],
  ["where (settings #>> '{a,b}') = $1", "settings"],
  ["from json_to_recordset(t.input) as x (a text)", "t.input"],
  ["select error::jsonb ? 'code'", "error"],
  ["select cast(e.error as jsonb)", "e.error"],
  ["select to_jsonb(r.result)", "r.result"],
  ["select json_value(p.details, '$.a')", "p.details"],
  ["select read_it(x, (y)) ->> 'a'", "read_it()"],
])("%s is noticed by this rule", (sql, what) => expect(takenApart(sql)).toEqual([what]));

test.each([
  "select json_build_object('a', e.error), json_agg(t.input), json_array_length(x.list), json_typeof(x.one)",
  "-- a -> b\nselect 1",
  "/** a ->> b */ const f = (a: Json) => a;",
])("%s is not", (sql) => expect(takenApart(sql)).toEqual([]));

function isParameter(what: string): boolean {
  return /^(p_\w+|\$\d+)$/.test(what);
}

/** On what the operators, functions and casts work that read the strings in a document. */
function takenApart(source: string): string[] {
  const text = source.replace(/\/\*[\s\S]*?\*\//g, "").replace(/(--|\/\/).*$/gm, "");
  const operators = [...text.matchAll(/([\w.$]+|[)'])\s*(?:->>?|#>>?)/g)].map(({ 1: left = "", index }) =>
    left === ")" ? `${callBefore(text, index)}()` : left,
  );
  const READING =
    /\b(?:to_jsonb|jsonb?_(?!build_|agg\b|object_agg|typeof|array_length|array_elements\b)\w+)\s*\(\s*([\w.$]+)/g;
  const CASTS = /([\w.$]+)(?:::json)?::jsonb\b|\bcast\s*\(\s*([\w.$]+)\s+as\s+jsonb\b/g;
  const others = [...text.matchAll(READING), ...text.matchAll(CASTS)].map(([, one, other]) => one ?? other ?? "");
  // A text before an operator is the key of the operator before it.
  return [...operators, ...others].filter((what) => what !== "'");
}

/** The name of the function whose call ends with the bracket at `end`. */
function callBefore(text: string, end: number): string {
  let depth = 0;
  let at = end;
  do {
    if (text[at] === ")") depth++;
    if (text[at] === "(") depth--;
  } while (depth > 0 && --at > 0);
  return /[\w.$]*$/.exec(text.slice(0, at))?.[0] ?? "";
}
