/** A task's settings, checked once: what workers run by, and what the database keeps of the definition. */
import { createHash } from "node:crypto";
import { isAbsolute } from "node:path";
import { pathToFileURL } from "node:url";
import {
  anything,
  type Check,
  type Checked,
  checkOptions,
  describe,
  isDuration,
  isInteger,
  isListOf,
  isOneOf,
  isOptions,
  isText,
} from "../config/checks.ts";
import { exactDuration } from "../config/duration.ts";
import type { Problems } from "../config/problems.ts";
import type { RetryOptions } from "./define-task.ts";
import { DEFAULT_RETRY, type RetryPolicy } from "./retry.ts";

export interface TaskSettings {
  readonly name: string;
  readonly queue: string;
  readonly priority: number;
  readonly retry: RetryPolicy;
  readonly isWorthRetrying: (error: unknown) => boolean;
  readonly timeoutMs: number | undefined;
  readonly onCrash: "fail" | "retry" | "requeue";
  /** How many crashes it may cost; undefined: what the recovery settings say. */
  readonly crashBudget: number | undefined;
  readonly whenCutOff: "abort" | "continue";
  /** In the worker's own thread, or in a runner. */
  readonly runIn: RunIn;
  /** Where a runner finds the code: the address of the file that exports the task. */
  readonly module: string | undefined;
  readonly stalledAfterMs: number | undefined;
  readonly onStall: "alert" | "fail" | "retry";
}

export const ON_CRASH = ["fail", "retry", "requeue"] as const;
export const ON_STALL = ["alert", "fail", "retry"] as const;
export const RUN_IN = ["inline", "thread", "process"] as const;
export type RunIn = (typeof RUN_IN)[number];

const YEAR_MS = 365 * 86_400_000;
export const PRIORITY_RANGE = { min: -100, max: 100 } as const;

export const isName = isText({
  max: 128,
  pattern: /^[A-Za-z0-9][A-Za-z0-9._:/-]*$/,
  hint: "1 to 128 ASCII letters, digits or . _ : / -, starting with a letter or a digit",
});

export const isShare: Check<number> = (value, path, problems) => {
  if (typeof value === "number" && value >= 0 && value <= 1) return value;
  problems.add(path, `must be a number from 0 to 1, not ${describe(value)}`);
  return undefined;
};

export const isDelay = isDuration({ minMs: 0, maxMs: YEAR_MS });
const areDelays = isListOf(isDelay);

export const isBackoff: Check<RetryPolicy["backoff"]> = (value, path, problems) => {
  if (value === "fixed" || value === "exponential") return value;
  if (Array.isArray(value) && value.length > 0) return areDelays(value, path, problems);
  problems.add(path, `must be "exponential", "fixed" or a list of durations, not ${describe(value)}`);
  return undefined;
};

/** A file's address, as `import.meta.url` is one, or its absolute path. Comes out as an address. */
const isModule: Check<string> = (value, path, problems) => {
  const text = value instanceof URL ? value.href : value;
  if (typeof text === "string" && text.startsWith("file:")) return text;
  if (typeof text === "string" && isAbsolute(text)) return pathToFileURL(text).href;
  problems.add(path, `must be import.meta.url, or the absolute path of the file, not ${describe(value)}`);
  return undefined;
};

const isRetry = isOptions({
  attempts: isInteger({ min: 1, max: 1_000 }),
  backoff: isBackoff,
  delay: isDelay,
  maxDelay: isDelay,
  jitter: isShare,
  unless: anything,
});

/** What a definition has besides its settings: checked elsewhere, and named here because they are known. */
const CODE_SHAPE = { input: anything, run: anything };

/** Options of `enqueue` that somebody may look for in a definition. */
export const ENQUEUE_ONLY: readonly string[] = [
  ...["id", "delay", "runAt", "expiresAt", "expiresIn", "uniqueKey", "onDuplicate", "uniqueOver", "uniqueFor"],
  ...["debounce", "exclusiveKey", "exclusiveLimit", "rateLimit", "metadata", "tx"],
];

const SHAPE = {
  name: isName,
  queue: isName,
  priority: isInteger(PRIORITY_RANGE),
  retry: ((value, path, problems) => {
    if (typeof value !== "number") return isRetry(value, path, problems);
    problems.add(path, `must be an object such as { attempts: 3 }, not ${value}`);
    return undefined;
  }) satisfies typeof isRetry,
  timeout: isDuration({ minMs: 1, maxMs: YEAR_MS }),
  onCrash: isOneOf(ON_CRASH),
  crashBudget: isInteger({ min: 1, max: 1_000 }),
  whenCutOff: isOneOf(["abort", "continue"]),
  runIn: isOneOf(RUN_IN),
  module: isModule,
  stalledAfter: isDuration({ minMs: 100, maxMs: YEAR_MS }),
  onStall: isOneOf(ON_STALL),
};

type GivenRetry = NonNullable<Checked<typeof SHAPE>["retry"]> | Record<string, never>;

export function checkSettings(options: unknown, problems: Problems): TaskSettings {
  const given = checkOptions(
    withoutEnqueueOptions(options, problems),
    { ...SHAPE, ...CODE_SHAPE },
    { path: "", problems },
  );
  if (given.name === undefined && problems.isEmpty) problems.add("name", "is missing");
  const onCrash = given.onCrash ?? "fail";
  checkStall(given, problems);
  checkDelays(given.retry ?? {}, problems);
  return Object.freeze({
    name: given.name ?? "",
    queue: given.queue ?? "default",
    priority: given.priority ?? 0,
    retry: retryPolicy(given.retry ?? {}),
    isWorthRetrying: worthRetrying(given.retry?.unless as RetryOptions["unless"], problems),
    timeoutMs: given.timeout,
    onCrash,
    crashBudget: given.crashBudget,
    // Work that someone else may repeat must not go on unseen; work that nobody will repeat may.
    whenCutOff: given.whenCutOff ?? (onCrash === "fail" ? "continue" : "abort"),
    runIn: given.runIn ?? "inline",
    module: given.module,
    stalledAfterMs: given.stalledAfter,
    onStall: given.onStall ?? "alert",
  });
}

/** A delay that was written out is obeyed: a limit that was not written out makes way for it. */
function retryPolicy({ attempts, backoff, delay, maxDelay, jitter }: GivenRetry): RetryPolicy {
  return Object.freeze({
    attempts: attempts ?? DEFAULT_RETRY.attempts,
    backoff: backoff ?? DEFAULT_RETRY.backoff,
    delayMs: delay ?? Math.min(DEFAULT_RETRY.delayMs, maxDelay ?? Number.POSITIVE_INFINITY),
    maxDelayMs: maxDelay ?? Math.max(DEFAULT_RETRY.maxDelayMs, delay ?? 0),
    jitter: jitter ?? DEFAULT_RETRY.jitter,
  });
}

/** Of two things that were written out and contradict each other, neither is preferred. */
function checkDelays({ backoff, delay, maxDelay }: GivenRetry, problems: Problems): void {
  if (maxDelay === undefined) return;
  const refuse = (what: string, ms: number) =>
    problems.add("retry.maxDelay", `is less than ${what} (${exactDuration(ms)}): raise it, or leave it out`);
  if (delay !== undefined && delay > maxDelay) refuse("delay", delay);
  if (!Array.isArray(backoff)) return;
  const index = backoff.findIndex((ms) => ms > maxDelay);
  if (index >= 0) refuse(`backoff[${index}]`, backoff[index]);
}

function withoutEnqueueOptions(options: unknown, problems: Problems): unknown {
  if (typeof options !== "object" || options === null) return options;
  const misplaced = ENQUEUE_ONLY.filter((key) => Object.hasOwn(options, key));
  for (const key of misplaced) problems.add(key, `\`${key}\` is an option of enqueue, not of a definition`);
  return Object.fromEntries(Object.entries(options).filter(([key]) => !misplaced.includes(key)));
}

/** What would quietly never happen is refused. */
function checkStall(given: Checked<typeof SHAPE>, problems: Problems): void {
  if (given.onStall === undefined) return;
  if (given.stalledAfter === undefined)
    problems.add("onStall", 'means nothing without "stalledAfter": say after how long without progress it is a stall');
  if (given.onStall === "retry" && (given.retry?.attempts ?? DEFAULT_RETRY.attempts) === 1)
    problems.add("onStall", '"retry" needs retry.attempts of 2 or more: a stalled attempt counts as a failed one');
}

function worthRetrying(unless: RetryOptions["unless"], problems: Problems): (error: unknown) => boolean {
  if (unless === undefined) return (error) => !saysNotRetryable(error);
  if (typeof unless === "function") return (error) => !saysNotRetryable(error) && !unless(error);
  if (!Array.isArray(unless) || unless.some((entry) => typeof entry !== "string")) {
    problems.add("retry.unless", "must be a list of error codes or names, or a function");
    return () => true;
  }
  const codes = new Set<unknown>(unless);
  return (error) => {
    const { code, name } = (error ?? {}) as { code?: unknown; name?: unknown };
    return !saysNotRetryable(error) && !codes.has(code) && !codes.has(name);
  };
}

/** Any error can say of itself that another try is pointless. */
function saysNotRetryable(error: unknown): boolean {
  return typeof error === "object" && error !== null && (error as { retryable?: unknown }).retryable === false;
}

/** What the database keeps, for callers in SQL and for whoever recovers the task without having its code. */
export function settingsRecord(settings: TaskSettings): Record<string, unknown> {
  const { queue, priority, retry, timeoutMs, onCrash, crashBudget, whenCutOff, runIn, stalledAfterMs, onStall } =
    settings;
  return { queue, priority, retry, timeoutMs, onCrash, crashBudget, whenCutOff, runIn, stalledAfterMs, onStall };
}

/** A short mark of that record: workers that have the same settings for a task have the same mark. */
export function settingsMark(settings: TaskSettings): string {
  return createHash("sha256")
    .update(JSON.stringify(settingsRecord(settings)))
    .digest("hex")
    .slice(0, 16);
}
