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
const FOUNDATION = [
  "advice",
  "control-characters",
  "clip",
  "errors",
  "log",
  "log-fields",
  "log-health",
  "outlet",
  "package-files",
  "process-listeners",
  "supervised-process",
  "timer",
  "version",
  "config",
];
const MAY_USE: Record<string, readonly string[]> = {
  "control-characters": [],
  advice: [],
  errors: ["advice"],
  "package-files": [],
  "process-listeners": [],
  "supervised-process": [],
  timer: [],
  version: ["package-files"],
  clip: [],
  "log-fields": ["clip"],
  "log-health": [],
  outlet: ["log-health"],
  log: ["control-characters", "log-fields"],
  "given-logger": ["log", "log-health", "task"],
  terminal: [],
  config: ["clip", "errors", "log", "alert-kinds"],
  task: [...FOUNDATION],
  "alert-kinds": ["task", "advice"],
  "alert-advice": ["advice", "alert-kinds"],
  events: ["task", "alert-kinds"],
  "log-events": ["events", "log", "task", "config"],
  // The middle: statements and the database that runs them, which know nothing above them.
  sql: [...FOUNDATION, "task", "alert-kinds", "alert-advice", "database"],
  database: [...FOUNDATION, "task", "sql"],
  services: [...FOUNDATION, "task", "sql", "database"],
  "told-error": ["advice", "errors", "database"],
  alerts: [...FOUNDATION, "task", "alert-kinds", "events", "sql", "database", "services"],
  queue: [...FOUNDATION, "task", "events", "sql", "database"],
  following: [...FOUNDATION, "task", "sql", "database"],
  heart: [...FOUNDATION, "task", "events", "sql", "database"],
  recovery: [
    ...[...FOUNDATION, "alert-kinds", "alert-advice", "task", "events", "sql", "database", "queue", "heart"],
    "services",
  ],
  upkeep: [...FOUNDATION, "task", "events", "sql", "database", "recovery", "services"],
  // The services of the cluster, from the parts that have them.
  background: [...FOUNDATION, "task", "events", "sql", "database", "recovery", "upkeep", "services"],
  runner: [...FOUNDATION, "task", "events", "sql", "database", "heart"],
  // What a runner's process or thread starts from: at the top, as a command is.
  "runner-entry": [...FOUNDATION, "task", "heart", "runner", "index"],
  worker: [
    ...FOUNDATION,
    "task",
    "events",
    "sql",
    "database",
    "queue",
    "heart",
    "recovery",
    "runner",
    "services",
    "background",
    "alerts",
  ],
  doctor: [...FOUNDATION, "alert-advice", "task", "sql", "database", "recovery", "services"],
  // What an open Everbeat is made of, and what can be asked of it.
  composition: [
    ...[...FOUNDATION, "given-logger", "task", "events", "log-events", "database", "queue"],
    ...["following", "worker", "services", "background", "alerts"],
  ],
  everbeat: [
    ...[...FOUNDATION, "task", "events", "log-events", "sql", "database", "queue", "recovery"],
    ...["composition", "doctor", "following", "runner", "worker", "services", "alerts"],
  ],
  // What can be asked, over the public parts: a statement that is missing there is added there.
  operations: [...FOUNDATION, "alerts", "task", "queue", "recovery", "everbeat", "index"],
  testing: [...FOUNDATION, "task", "events", "sql", "database", "queue", "runner", "worker", "everbeat"],
  supervisor: [
    ...FOUNDATION,
    "task",
    "events",
    "log-events",
    "sql",
    "database",
    "heart",
    "recovery",
    "worker",
    "everbeat",
    "services",
    "alerts",
  ],
  // Without `sql`: a command asks operations. What it may take of `database` is said below.
  cli: [
    ...FOUNDATION,
    "alert-kinds",
    "terminal",
    "told-error",
    "supervisor",
    "task",
    "events",
    "database",
    "queue",
    "recovery",
    "doctor",
    "runner",
    "services",
    "worker",
    "everbeat",
    "operations",
    "index",
  ],
  index: [
    ...FOUNDATION,
    "alert-kinds",
    "alerts",
    "task",
    "events",
    "sql",
    "database",
    "queue",
    "following",
    "recovery",
    "doctor",
    "runner",
    "services",
    "worker",
    "everbeat",
  ],
};

/** What a command cannot ask an operation for, because there is no database yet, or none is needed. */
const DATABASE_OF_THE_CLI: Readonly<Record<string, string>> = {
  "database/backoff.ts": "a pause of a worker's process, which has nothing to do with a database",
  "database/embedded/embedded-server.ts":
    "`dev` and `demo` start a server, and `doctor` looks whether it can be started",
  "database/migrate.ts": "`migrate --print` needs no database",
  "database/migrations.ts": "the same",
  "database/open-database.ts": "the folder of the embedded server, to say where it is",
  "database/targets.ts": "an address without its password, to say where the database is",
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

  test("of the command line on the database are those that have a reason", () => {
    const used = files
      .filter(({ path }) => path.startsWith("cli/"))
      .flatMap(({ path, text }) => importsOf(path, text))
      .filter((target) => target.startsWith("database/"));
    expect([...new Set(used)].sort()).toEqual(Object.keys(DATABASE_OF_THE_CLI).sort());
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

describe("a line for a shell", () => {
  const routines = readdirSync(join(root, "migrations/routines"), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".sql"))
    .map((file) => ({ path: `routines/${file}`, text: readFileSync(join(root, "migrations/routines", file), "utf8") }));
  // To start a worker, to migrate and to ask the doctor is said in words, since nobody may be there who could be asked for it.
  const LINE =
    /["'`(: ]everbeat (?!start|migrate|doctor)(tasks|queues|explain|recover|stale|replicas|machines|post-mortems?|status|enqueue)\b/;
  const linesIn = (all: typeof files) =>
    all.filter(({ text }) => LINE.test(withoutComments(text).replace(/^\s*--.*$/gm, ""))).map(({ path }) => path);

  test("is made by the command line alone: others advise by an operation and its input", () => {
    expect(linesIn([...files.filter(({ path }) => !path.startsWith("cli/")), ...routines])).toEqual([]);
    expect(linesIn(files.filter(({ path }) => path.startsWith("cli/"))).length).toBeGreaterThan(5);
  });
});

/** Timers of Node's own whose time is no constant, and why it is always shorter than the 24.8 days that they can wait. */
const SHORT_TIMES: Readonly<Record<string, string>> = {
  "cli/demo/stage.ts": "the demo's own pauses",
  "cli/load-tasks.ts": "ten seconds, and without keeping the process alive",
  "database/database.ts": "replyTimeout: an hour at the most",
  "database/pool.ts": "constants of connections.ts",
  "outlet/descriptor-queue.ts": "twenty milliseconds at the most",
  "heart/heart-loop.ts": "a part of the stale thresholds, which are a day at the most",
  "heart/live-as-heart.ts": "a part of the stale thresholds, which are a day at the most",
  "heart/loop-watch.ts": "a quarter of a second at the most",
  "recovery/keep-listening.ts": "a few of the intervals, which are an hour at the most",
  "runner-entry/runner-heart-thread.ts": "heartbeat intervals, which are an hour at the most",
  "runner-entry/runner-thread.ts": "heartbeat intervals, which are an hour at the most",
  "runner/latest-call.ts": "a tenth of a second at the most",
  "runner/runner-pool.ts": "the breaker's pauses: a minute at the most",
  "runner/runners.ts": "a tenth of the stale thresholds, which are a day at the most",
  "worker/attempts.ts": "what a reserve may wait: a quarter of a second",
  "worker/claimer.ts": "pollInterval: a minute at the most",
  "worker/reports.ts": "a constant at the most",
  "worker/rounds.ts": "a few milliseconds",
};

describe("timers", () => {
  const raw = files
    .filter(({ path }) => path !== "timer.ts")
    .flatMap(({ path, text }) => callsOf(text, /\bset(?:Timeout|Interval)\(/g).map((args) => ({ path, args })));
  const unclear = raw.filter(({ args }) => !/,\s*[A-Z][A-Z_]+,?\s*$/.test(args)).map(({ path }) => path);

  test("that may wait for long are those of timer.ts: Node's own fire at once where they should wait for a month", () => {
    expect(unclear.filter((path) => !(path in SHORT_TIMES))).toEqual([]);
  });

  test("of Node's own are noticed by this rule where they are, and listed only there", () => {
    expect(raw.length).toBeGreaterThan(20);
    expect(Object.keys(SHORT_TIMES).filter((path) => !unclear.includes(path))).toEqual([]);
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

  test("load jiti only where there is TypeScript to load: it is a third of the start of a command", () => {
    const loads = files.filter(({ text }) => text.includes('"jiti"'));
    expect(loads.length).toBeGreaterThan(0);
    expect(loads.filter(({ text }) => /^import (?!type ).*"jiti"/m.test(text)).map(({ path }) => path)).toEqual([]);
  });

  test("load the schemas of operations only where an operation is asked for: a worker's start does not pay for them", () => {
    const outside = files.filter(({ path }) => !path.startsWith("operations/"));
    const loading = /^import (?!type )[^;]*?"(zod|[^"]*\/operations\/[^"]*)"/m;
    expect(outside.filter(({ text }) => loading.test(text)).map(({ path }) => path)).toEqual([]);
    expect(files.filter(({ text }) => loading.test(text)).length).toBeGreaterThan(2);
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

/** What is between the parentheses of each call. */
function callsOf(text: string, call: RegExp): string[] {
  return [...text.matchAll(call)].map((match) => {
    const from = match.index + match[0].length;
    let [at, depth] = [from, 1];
    while (depth > 0 && at < text.length) depth += { "(": 1, ")": -1 }[text[at++] as string] ?? 0;
    return text.slice(from, at - 1);
  });
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/^\s*\/\/.*$/gm, "");
}
