/** The rules of the house that a compiler does not know: which way dependencies point, where SQL may be, file sizes. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";

const root = fileURLToPath(new URL("../../", import.meta.url));
const files = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".ts"))
  .map((file) => ({ path: file, text: readFileSync(join(root, "src", file), "utf8") }));

/** What each folder may use, besides itself and the foundation. `src/*.ts` files are subjects of their own. */
const FOUNDATION = ["errors", "log", "package-files", "process-listeners", "version", "config"];
const MAY_USE: Record<string, readonly string[]> = {
  errors: [],
  "package-files": [],
  "process-listeners": [],
  version: ["package-files"],
  log: [],
  config: ["errors", "log"],
  task: [...FOUNDATION],
  events: ["task"],
  "log-events": ["events", "log", "task"],
  // The middle: statements and the database that runs them, which know nothing above them.
  sql: [...FOUNDATION, "task", "database"],
  database: [...FOUNDATION, "task", "sql"],
  service: ["database"],
  queue: [...FOUNDATION, "task", "events", "sql", "database"],
  heart: [...FOUNDATION, "task", "events", "sql", "database"],
  recovery: [...FOUNDATION, "task", "events", "sql", "database", "queue", "service"],
  runner: [...FOUNDATION, "task", "events", "sql", "database", "heart"],
  // What a runner's process or thread starts from: at the top, as a command is.
  "runner-entry": [...FOUNDATION, "task", "heart", "runner", "index"],
  worker: [...FOUNDATION, "task", "events", "sql", "database", "queue", "heart", "recovery", "runner", "service"],
  everbeat: [
    ...[...FOUNDATION, "task", "events", "log-events", "sql", "database", "queue", "heart", "recovery", "runner"],
    "worker",
  ],
  testing: [...FOUNDATION, "task", "events", "sql", "database", "queue", "runner", "worker", "everbeat"],
  supervisor: [
    ...FOUNDATION,
    "task",
    "events",
    "log-events",
    "sql",
    "database",
    "recovery",
    "worker",
    "everbeat",
    "service",
  ],
  cli: [
    ...FOUNDATION,
    "supervisor",
    "task",
    "events",
    "sql",
    "database",
    "queue",
    "recovery",
    "runner",
    "worker",
    "everbeat",
    "index",
  ],
  index: [...FOUNDATION, "task", "events", "sql", "database", "queue", "recovery", "runner", "worker", "everbeat"],
};

describe("dependencies", () => {
  test("point one way", () => {
    const wrong = files.flatMap(({ path, text }) => {
      const from = subjectOf(path);
      return importsOf(path, text)
        .filter((target) => subjectOf(target) !== from && !MAY_USE[from]?.includes(subjectOf(target)))
        .map((target) => `${path} must not use ${target}`);
    });
    expect(wrong).toEqual([]);
  });

  test("of a folder that nobody has given rules are not overlooked", () => {
    expect(files.map(({ path }) => subjectOf(path)).filter((subject) => !(subject in MAY_USE))).toEqual([]);
  });
});

describe("SQL", () => {
  const SQL = /\b(insert\s+into\s+\S|update\s+\S+\s+set\s|delete\s+from\s+\S|select\s[^;`'"]{1,200}?\sfrom\s+[\w$"{])/i;
  test("is written in src/sql and src/database, and nowhere else", () => {
    const elsewhere = files.filter(
      ({ path, text }) => !/^(sql|database)\//.test(path) && SQL.test(withoutComments(text)),
    );
    expect(elsewhere.map(({ path }) => path)).toEqual([]);
  });

  test("is noticed by this rule where it is", () => {
    const found = files.filter(({ path, text }) => path.startsWith("sql/") && SQL.test(withoutComments(text)));
    expect(found.length).toBeGreaterThan(5);
  });
});

describe("files", () => {
  test("are small, and say in their first line what they are for", () => {
    const lines = (text: string) => text.split("\n").length;
    expect(files.filter(({ text }) => lines(text) > 350).map(({ path }) => path)).toEqual([]);
    expect(files.filter(({ text }) => !/^(#!.*\n)?(\/\*\*|\/\/)/.test(text)).map(({ path }) => path)).toEqual([]);
  });

  test("have no catch-all names", () => {
    expect(
      files
        .filter(({ path }) => /(^|\/)(utils?|helpers?|common|manager|misc|types)\.ts$/.test(path))
        .map(({ path }) => path),
    ).toEqual([]);
  });

  test("decide nothing by PID", () => {
    expect(files.filter(({ text }) => /process\.kill\([^)]*,\s*0\)/.test(text)).map(({ path }) => path)).toEqual([]);
  });
});

function subjectOf(path: string): string {
  const [first = ""] = path.split("/");
  return first.replace(/\.ts$/, "");
}

function importsOf(path: string, text: string): string[] {
  return [...text.matchAll(/(?:from|import)\s*\(?\s*"(\.[^"]+)"/g)].map((match) =>
    relative(".", normalize(join(dirname(path), match[1] ?? ""))),
  );
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/^\s*\/\/.*$/gm, "");
}
