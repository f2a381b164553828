import { describe, expect, test } from "vitest";
import { coloursFor, rendered } from "../../src/cli/colours.ts";
import { checkVersions } from "../../src/cli/doctor/check-versions.ts";
import { pairs, table } from "../../src/cli/table.ts";
import { fromNow, lasting } from "../../src/cli/times.ts";
import { judgeRights } from "../../src/doctor/check-rights.ts";
import type { Rights } from "../../src/sql/rights.ts";

const plain = { colours: coloursFor({ isTTY: false }, {}), width: 80 };

describe("a table", () => {
  const rows = [
    { name: "a", count: 5, note: "" },
    { name: "longer", count: 1_000, note: "" },
  ];
  const columns = [
    { title: "NAME", value: (row: (typeof rows)[number]) => row.name },
    { title: "COUNT", value: (row: (typeof rows)[number]) => String(row.count), align: "right" as const },
    { title: "NOTE", value: (row: (typeof rows)[number]) => row.note, isOptional: true, atLeast: 20 },
  ];

  test("aligns its columns and leaves out those with nothing in them", () => {
    expect(table(rows, columns, plain)).toEqual(["NAME    COUNT", "a           5", "longer   1000"]);
  });

  test("is as wide in colour as without", () => {
    const coloured = { ...plain, colours: coloursFor({ isTTY: true }, { TERM: "xterm" }) };
    const styled = columns.map((column) => ({ ...column, style: (text: string) => coloured.colours.red(text) }));
    const shown = table(rows, styled, coloured).map(rendered);
    expect(shown.join()).toContain("\x1b[31m");
    expect(shown.map((line) => line.replace(/\x1b\[\d+m/g, ""))).toEqual(table(rows, columns, plain));
  });

  test("shortens only the columns that may be shortened", () => {
    const wide = [{ name: "an-id-to-copy", count: 1, note: "x".repeat(100) }];
    const [, line = ""] = table(wide, columns, { ...plain, width: 50 });
    expect(line).toHaveLength(50);
    expect(line).toContain("an-id-to-copy");
    expect(line.endsWith("…")).toBe(true);
    expect(table(wide, columns, { ...plain, width: 150 }).join()).toContain("x".repeat(100));
  });

  test("has below a row what does not fit beside it, the last columns first, and nothing of what is empty", () => {
    const wide = [
      { name: "an-id-to-copy", count: 1, note: "one two three four" },
      { name: "another-id", count: 20, note: "" },
    ];
    expect(table(wide, columns, { ...plain, width: 30 })).toEqual([
      "NAME           COUNT",
      "an-id-to-copy      1",
      "    note one two three four",
      "another-id        20",
    ]);
    expect(table(wide, columns, { ...plain, width: 16, indent: 1 })).toEqual([
      ...[" NAME  COUNT", " an-id-to-copy", "           1", "     note one two", "     three four"],
      ...[" another-id", "          20"],
    ]);
  });

  test("has a name that would take more than half of the line on a line of its own", () => {
    const named = [
      { name: "n".repeat(22), count: 1, note: "" },
      { name: "short", count: 2, note: "" },
    ];
    expect(table(named, columns, { ...plain, width: 20 })).toEqual([
      ...["NAME   COUNT", "n".repeat(20), "nn", "           1", "short      2"],
    ]);
  });

  test("keeps a message of several lines on one", () => {
    expect(table([{ name: "a\n  b", count: 1, note: "" }], columns, plain)[1]).toMatch(/^a b /);
  });

  test("is aligned by what is shown of a text with control characters, and cuts no character in half", () => {
    const odd = [
      { name: "\x1b[2J\u202e", count: 1, note: `${"x".repeat(26)}\u{1f600}${"y".repeat(90)}` },
      { name: "b", count: 2, note: "" },
    ];
    const [, first = "", second = ""] = table(odd, columns, { ...plain, width: 50 });
    expect(first).toMatch(/^\\x1b\[2J\\u202e {6}1 {2}x{26}…$/);
    expect(second).toMatch(/^b {12} {6}2$/);
  });

  test("of names and values leaves out what is not known", () => {
    expect(
      pairs(
        [
          ["id", "1"],
          ["longer", "2\n3"],
          ["none", undefined],
        ],
        plain,
      ),
    ).toEqual(["id      1", "longer  2", "        3"]);
  });
});

test.each([
  [{ isTTY: true }, {}, true],
  [{ isTTY: false }, {}, false],
  [{ isTTY: false }, { CI: "true" }, false],
  [{ isTTY: true }, { NO_COLOR: "1" }, false],
  [{ isTTY: true }, { TERM: "dumb" }, false],
  [{ isTTY: false }, { FORCE_COLOR: "1" }, true],
  [{ isTTY: true }, { FORCE_COLOR: "0" }, false],
])("colour on %j with %j: %j", (stream, env, isColoured) => {
  expect(coloursFor(stream, env).red("x") !== "x").toBe(isColoured);
});

test.each([
  [0, "just now"],
  [999, "just now"],
  [1_000, "1s ago"],
  [61_900, "1m 1s ago"],
  [-5_400_000, "in 1h 30m"],
])("%d ms before now is %s", (ms, words) => {
  const now = new Date("2030-01-01T00:00:00Z");
  expect(fromNow(new Date(now.getTime() - ms), now)).toBe(words);
  expect(fromNow(null, now)).toBe("");
  expect(lasting(new Date(now.getTime() - Math.abs(ms)), now)).not.toBe("");
});

describe("the doctor's judgement", () => {
  const full: Rights = {
    role: "app",
    databaseName: "shop",
    hasSchema: true,
    canCreateSchema: true,
    canChangeSchema: true,
    canUseSchema: true,
    closedTables: [],
    unreadableTables: [],
    canWrite: true,
    closedSequences: [],
    closedFunctions: [],
  };

  test.each<[string, Partial<Rights>, string, RegExp]>([
    ["all rights", {}, "good", /may work in the schema "jobs" and migrate/],
    ["no right to migrate", { canChangeSchema: false }, "good", /but not migrate/],
    ["a schema to be made", { hasSchema: false }, "good", /may create the schema "jobs"/],
    ["a schema that cannot be made", { hasSchema: false, canCreateSchema: false }, "wrong", /may not create/],
    ["a closed schema", { canUseSchema: false }, "wrong", /may not use/],
    [
      "the right to look and no more",
      { closedTables: ["ready", "task"], canWrite: false },
      "warning",
      /look at everything in the schema "jobs", and change nothing/,
    ],
    [
      "the right to look at some tables only",
      { closedTables: ["ready", "task"], unreadableTables: ["task"], canWrite: false },
      "wrong",
      /cannot read and write 2 tables/,
    ],
    ["closed tables", { closedTables: ["ready", "task"] }, "wrong", /2 tables of "jobs", such as ready/],
  ])("of a role with %s", (_what, rights, mark, found) => {
    const finding = judgeRights({ ...full, ...rights }, "jobs");
    expect(finding.mark).toBe(mark);
    expect(finding.found).toMatch(found);
  });

  test("of a role: what helps can be pasted, whatever the names are", () => {
    const named = { ...full, role: "Web App" };
    const sql = (rights: Partial<Rights>) => judgeRights({ ...named, ...rights }, "my jobs").advice[0];
    expect(sql({ canUseSchema: false })).toMatchObject({ sentence: 'grant usage on schema "my jobs" to "Web App";' });
    expect(sql({ closedFunctions: ["ring"] })).toMatchObject({
      sentence: 'grant execute on all routines in schema "my jobs" to "Web App";',
    });
  });

  test.each([
    ["18.19.0", "wrong"],
    ["20.11.1", "wrong"],
    ["20.12.0", "good"],
    ["24.0.0", "good"],
  ])("of Node %s is %s", (node, mark) => {
    expect(checkVersions(node).mark).toBe(mark);
  });
});
