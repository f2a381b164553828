/** Every duration that a user can give, wherever it is given: whole milliseconds within bounds come out, or it is refused. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Command, Option } from "commander";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { asDuration } from "../../src/cli/arguments.ts";
import { readEnqueueCall } from "../../src/cli/enqueue-options.ts";
import { createProgram } from "../../src/cli/program.ts";
import { recoveryOptions } from "../../src/cli/recovery-options.ts";
import { runnerOptions } from "../../src/cli/runner-options.ts";
import type { Screen } from "../../src/cli/screen.ts";
import { type Duration, durationMs, MAX_DURATION_MS } from "../../src/config/duration.ts";
import { checkOpen } from "../../src/config/open-options.ts";
import { InvalidOptionsError, Problems } from "../../src/config/problems.ts";
import { checkRecovery } from "../../src/config/recovery-options.ts";
import { heartPlanOf } from "../../src/heart/heart-plan.ts";
import { checkTerms } from "../../src/queue/enqueue-options.ts";
import { checkQueue } from "../../src/queue/queue-orders.ts";
import { checkWait } from "../../src/queue/results.ts";
import { checkCancel } from "../../src/queue/task-orders.ts";
import { checkStale } from "../../src/recovery/recovery-orders.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { backoffMs } from "../../src/task/retry.ts";
import { settingsRecord } from "../../src/task/settings.ts";
import { Snooze, snooze } from "../../src/task/snooze.ts";
import { checkAdvance } from "../../src/testing/advance-time.ts";
import { checkDrain } from "../../src/testing/drain.ts";
import { checkHandler } from "../../src/testing/handler-options.ts";
import { checkWork } from "../../src/worker/options.ts";
import { written } from "../support/durations.ts";

const run = () => null;
const task = defineTask({ name: "a", run });
const retried = (retry: object) =>
  settingsRecord(defineTask({ name: "a", retry: { attempts: 9, ...retry }, run }).settings);
const snoozed = (given: Duration) => {
  try {
    return snooze(given);
  } catch (error) {
    if (error instanceof Snooze) return { delayMs: error.delayMs };
    throw error;
  }
};
const recovery = (options: object) => {
  const problems = new Problems();
  const settings = checkRecovery(options, problems);
  problems.throwIfAny("recovery");
  return [settings, heartPlanOf(settings).promise, heartPlanOf(settings).promiseAtStart];
};
const terms = (options: object) => {
  const problems = new Problems();
  const { json } = checkTerms({ task, options, path: "", limitBytes: 1_000 }, problems);
  problems.throwIfAny("terms");
  return JSON.parse(json);
};

type Edge = (given: Duration) => unknown;

/** By file and option: where a duration may be given, and what comes of it there. */
const EDGES: Record<string, Record<string, Edge>> = {
  "everbeat.ts": { timeout: (timeout) => checkWait("0198c6f0-5a5e-7c3e-9d55-0b7f3c1f2a11", { timeout }) },
  "config/open-options.ts": {
    cancelGrace: (cancelGrace) => checkOpen({ cancelGrace }).cancelGraceMs,
    replyTimeout: (replyTimeout) => checkOpen({ replyTimeout }).replyTimeoutMs,
  },
  "config/recovery-options.ts": {
    claimedStaleThreshold: (given) => recovery({ claimedStaleThreshold: given, claimerHeartbeatInterval: 50 }),
    runningStaleThreshold: (given) => recovery({ runningStaleThreshold: given, runnerHeartbeatInterval: 50 }),
    claimerHeartbeatInterval: (given) => recovery({ claimerHeartbeatInterval: given, claimedStaleThreshold: "24h" }),
    runnerHeartbeatInterval: (given) => recovery({ runnerHeartbeatInterval: given, runningStaleThreshold: "24h" }),
    warnAfter: (warnAfter) => recovery({ warnAfter }),
    checkInterval: (checkInterval) => recovery({ checkInterval }),
    sessionGrace: (sessionGrace) => recovery({ sessionGrace }),
    historyAge: (historyAge) => recovery({ historyAge }),
    purgeAge: (purgeAge) => recovery({ purgeAge }),
    purgeInterval: (purgeInterval) => recovery({ purgeInterval }),
    postMortemAge: (postMortemAge) => recovery({ postMortemAge }),
    hold: (hold) => recovery({ massDeath: { hold } }),
    stackAfter: (stackAfter) => recovery({ blockedLoop: { stackAfter } }),
    timeoutGrace: (timeoutGrace) => recovery({ blockedLoop: { timeoutGrace } }),
    endAfter: (endAfter) => recovery({ blockedLoop: { endAfter } }),
  },
  "queue/enqueue-options.ts": {
    delay: (delay) => terms({ delay }),
    debounce: (debounce) => terms({ debounce, uniqueKey: "k" }),
    uniqueFor: (uniqueFor) => terms({ uniqueFor, uniqueKey: "k" }),
    expiresIn: (expiresIn) => terms({ expiresIn }),
    per: (per) => terms({ rateLimit: { key: "k", limit: 1, per } }),
  },
  "queue/queue-orders.ts": { per: (per) => checkQueue("q", { rateLimit: { limit: 1, per } }) },
  "queue/task-orders.ts": { grace: (grace) => checkCancel({ grace }) },
  "recovery/recovery-orders.ts": { after: (after) => checkStale({ after, dryRun: true }) },
  "runner/runner-options.ts": {
    startTimeout: (startTimeout) => checkWork([task], { runners: { startTimeout } }).runners.startTimeoutMs,
  },
  "task/context.ts": { duration: snoozed },
  "task/snooze.ts": { duration: snoozed },
  "task/define-task.ts": {
    timeout: (timeout) => settingsRecord(defineTask({ name: "a", timeout, run }).settings),
    stalledAfter: (stalledAfter) => settingsRecord(defineTask({ name: "a", stalledAfter, run }).settings),
    delay: (delay) => retried({ delay, maxDelay: "365d" }),
    maxDelay: (maxDelay) => retried({ maxDelay }),
    backoff: (given) => retried({ backoff: ["1s", given] }),
    "backoff, as it is waited": (given) => {
      const { retry } = defineTask({
        name: "a",
        retry: { attempts: 9, backoff: [given], maxDelay: given, jitter: 0.3 },
        run,
      }).settings;
      return [0, 0.1, 0.9999].map((random) => backoffMs(3, retry, random));
    },
    "delay, as it is waited": (given) => {
      const { retry } = defineTask({ name: "a", retry: { attempts: 9, delay: given, jitter: 1 }, run }).settings;
      return [1, 7, 1_000, 2_147_483_647].map((failures) => backoffMs(failures, retry, 1 / 3));
    },
  },
  "testing/advance-time.ts": { duration: checkAdvance },
  "testing/drain.ts": { timeout: (timeout) => checkDrain({ timeout }) },
  "testing/handler-options.ts": {
    abortGrace: (abortGrace) => checkHandler(task, { kind: "one", inputs: [1], options: { abortGrace } }),
  },
  "worker/options.ts": {
    pollInterval: (pollInterval) => checkWork([task], { pollInterval }).pollMs,
    shutdownGrace: (shutdownGrace) => checkWork([task], { shutdownGrace }).shutdownGraceMs,
    abortGrace: (abortGrace) => checkWork([task], { abortGrace }).abortGraceMs,
    maxAge: (maxAge) => checkWork([task], { retention: { maxAge } }).retention.maxAgeMs,
  },
};

const durations = fc.oneof(
  written,
  fc.double(),
  fc.double({ min: 0, max: 1_000_000, noNaN: true }),
  fc.integer(),
  fc.constantFrom<unknown>(120.375, 1e300, -0, -0.4, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY),
  fc.bigInt(),
  fc.constantFrom<unknown>(null, true, [5], ["5s"], { ms: 5 }, new Date(5), new Number(5), Symbol("5s"), () => 5),
) as fc.Arbitrary<Duration>;

/** What comes out is whole and bounded; `isOne` says whether anything may. */
function judge(edge: () => unknown, isOne: boolean): void {
  let made: unknown;
  try {
    made = edge();
  } catch (error) {
    const isOurs = error instanceof InvalidOptionsError || (error as Error).name === "InvalidArgumentError";
    expect(isOurs, String(error)).toBe(true);
    return;
  }
  expect(isOne, "it was taken for a duration").toBe(true);
  for (const number of millisecondsIn(made)) {
    expect(Number.isSafeInteger(number), `${number}`).toBe(true);
    expect(number).toBeGreaterThanOrEqual(0);
    expect(number).toBeLessThanOrEqual(MAX_DURATION_MS);
  }
}

const edges = Object.entries(EDGES).flatMap(([file, options]) =>
  Object.entries(options).map(([option, edge]) => ({ file, option, edge })),
);

test.each(edges)("$option of $file comes out whole and bounded, or is refused in our own words", ({ edge }) => {
  fc.assert(
    fc.property(durations, (given) => judge(() => edge(given), durationMs(given) !== undefined)),
    { numRuns: 150 },
  );
});

describe("on the command line", () => {
  const timed = optionsOf(createProgram({ screen: {} as Screen, end() {} })).filter(({ option }) =>
    /<.*(duration|when).*>/.test(option.flags),
  );

  test("these options take a duration", () => {
    expect(new Set(timed.map(({ option }) => option.long))).toEqual(
      new Set([
        ...["--delay", "--expires-in", "--unique-for", "--debounce", "--rate-limit", "--timeout"],
        ...["--grace", "--since", "--after", "--poll-interval", "--shutdown-grace", "--abort-grace", "--healthy-after"],
      ]),
    );
  });

  test.each(timed)(
    "$command $option.flags comes out whole and bounded, or is refused in our own words",
    ({ option }) => {
      const read = (text: string) => option.parseArg?.(text, undefined) ?? enqueued(option, text);
      const isRate = option.long === "--rate-limit";
      const before = isRate ? (option.parseArg ? "5/" : "k=5/") : "";
      fc.assert(
        fc.property(
          written.filter((text) => !isRate || !/[/=]/.test(text)),
          (text) => judge(() => read(before + text), isOneOn(option, text)),
        ),
        { numRuns: 150 },
      );
    },
  );

  test.each(Object.keys(EDGES["config/recovery-options.ts"] as object))(
    "--recovery %s=… is checked as in code",
    (name) => {
      const path = {
        hold: "massDeath.",
        stackAfter: "blockedLoop.",
        timeoutGrace: "blockedLoop.",
        endAfter: "blockedLoop.",
      };
      const full = `${path[name as keyof typeof path] ?? ""}${name}`;
      fc.assert(
        fc.property(pairValue, (text) =>
          judge(() => recovery(recoveryOptions(`${full}=${text}`)), isPairDuration(text)),
        ),
      );
    },
  );

  test("--runners startTimeout=… is checked as in code", () => {
    const made = (text: string) => checkWork([task], { runners: runnerOptions(`startTimeout=${text}`) }).runners;
    fc.assert(
      fc.property(pairValue, (text) => judge(() => made(text).startTimeoutMs, isPairDuration(text))),
      { numRuns: 150 },
    );
  });
});

const pairValue = written.filter((text) => !/[,=]/.test(text));

/** A bare number is milliseconds, with a fraction too. */
function isPairDuration(text: string): boolean {
  return durationMs(/^\d+(\.\d+)?$/.test(text.trim()) ? Number(text) : text) !== undefined;
}

function isOneOn({ long }: Option, text: string): boolean {
  if (long === "--rate-limit") return durationMs(/^\d/.test(text) ? text : `1${text}`) !== undefined;
  // Also a time: then no number comes out.
  if (long === "--since") return durationMs(text) !== undefined || !Number.isNaN(Date.parse(text));
  return durationMs(asDuration(text)) !== undefined;
}

/** What `everbeat enqueue` reads all together, so that all problems come out together. */
function enqueued(option: Option, text: string): unknown {
  const needs = /debounce|unique-for/.test(option.flags) ? { uniqueKey: "k" } : {};
  return readEnqueueCall("a", "null", { wait: true, ...needs, [option.attributeName()]: text });
}

function optionsOf(command: Command): { command: string; option: Option }[] {
  return [
    ...command.options.map((option) => ({ command: command.name(), option })),
    ...command.commands.flatMap((child) => optionsOf(child as Command)),
  ];
}

/** Besides the files of the table: who checks durations for them, or reads them from a command line. */
const CHECKED_IN: Readonly<Record<string, string>> = {
  "cli/arguments.ts": "what every command shares",
  "cli/enqueue-options.ts": "everbeat enqueue",
  "cli/supervise-options.ts": "--healthy-after",
  "config/checks.ts": "the check itself",
  "config/duration.ts": "its meaning",
  "queue/rate-limit.ts": "per, of tasks and of queues",
  "queue/results.ts": "timeout, for everbeat.ts",
  "task/settings.ts": "those of define-task.ts",
};

/** Where the type is made, and where it is only said that a value is one: the rules of the table check it. */
const BESIDE = ["config/duration.ts", "operations/schemas.ts"];

describe("the table above", () => {
  const root = fileURLToPath(new URL("../../src", import.meta.url));
  const files = readdirSync(root, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts") && !BESIDE.includes(file))
    .map((file) => ({ file, text: withoutComments(readFileSync(join(root, file), "utf8")) }));
  const declared = files.flatMap(({ file, text }) =>
    [...text.matchAll(/(\w+)\??: [^;,(){}=]*?\bDuration\b/g)].map((match) => `${file} ${match[1]}`),
  );

  test("has every option of this type", () => {
    expect(declared.length).toBeGreaterThan(40);
    expect(declared.filter((name) => !edges.some(({ file, option }) => `${file} ${option}` === name))).toEqual([]);
  });

  test("has no option that there is not", () => {
    const known = edges.filter(({ option }) => /^\w+$/.test(option)).map(({ file, option }) => `${file} ${option}`);
    expect(known.filter((name) => !declared.includes(name))).toEqual([]);
  });

  test("misses no way of writing the type", () => {
    const uses = files.flatMap(({ text }) => [...withoutImports(text).matchAll(/\bDuration\b/g)]);
    expect(uses).toHaveLength(declared.length);
  });

  test("has every file that checks one", () => {
    const checking = files.filter(({ text }) => /\b(isDuration|asDuration|durationMs)\(/.test(text));
    expect(checking.length).toBeGreaterThan(15);
    expect(checking.map(({ file }) => file).filter((file) => !(file in EDGES) && !(file in CHECKED_IN))).toEqual([]);
  });
});

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/^\s*\/\/.*$/gm, "");
}

function withoutImports(text: string): string {
  return text.replace(/^import [\s\S]*?;$/gm, "").replace(/^export (type )?\{[\s\S]*?;$/gm, "");
}

/** Shares are no durations. */
function millisecondsIn(made: unknown, key = ""): number[] {
  if (key === "jitter" || key === "share") return [];
  if (typeof made === "number") return [made];
  if (typeof made !== "object" || made === null) return [];
  return Object.entries(made).flatMap(([name, value]) => millisecondsIn(value, name));
}

test("what was meant is what comes out: to the nearest millisecond, not to one that binary fractions make of it", () => {
  expect([120.375, "1.005s", "1.0005s", "0.4ms", 0.5, "0.1m", "2.3h"].map(durationMs)).toEqual([
    ...[120, 1_005, 1_001, 0, 1, 6_000, 8_280_000],
  ]);
});

test.each([
  -1,
  -0.4,
  1e300,
  MAX_DURATION_MS + 1,
  `${"9".repeat(400)}d`,
  "3651d",
  "5\u00a0s",
  "5\u3000s",
  "٣s",
  Number.NaN,
])("%s is none", (given) => expect(durationMs(given)).toBeUndefined());
