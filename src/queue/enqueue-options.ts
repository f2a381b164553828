/** The options of `enqueue`, and the terms of a task that they become. */
import {
  anything,
  type Check,
  type Checked,
  checkOptions,
  describe,
  isDuration,
  isInstant,
  isInteger,
  isListOf,
  isOneOf,
  isText,
  pathOf,
} from "../config/checks.ts";
import { type Duration, MAX_DURATION_MS } from "../config/duration.ts";
import { Problems } from "../config/problems.ts";
import { isTransaction, NOT_A_TRANSACTION } from "../database/transaction-store.ts";
import type { Transaction } from "../task/context.ts";
import type { AnyTask } from "../task/define-task.ts";
import { isUuid, type TaskId } from "../task/ids.ts";
import { toJson } from "../task/json.ts";
import { isName, PRIORITY_RANGE } from "../task/settings.ts";
import { TASK_STATES, type TaskState } from "../task/states.ts";
import { isKeyedRateLimit } from "./rate-limit.ts";

export interface EnqueueOptions {
  /** The task's id (a UUID). The same id twice is the same task: pass your own to make a call repeatable. Another task's id is refused. */
  id?: string | undefined;
  queue?: string | undefined;
  /** -100 (first) to 100 (last). */
  priority?: number | undefined;
  delay?: Duration | undefined;
  runAt?: Date | string | undefined;
  /** A task that has not started by then never will. */
  expiresAt?: Date | string | undefined;
  expiresIn?: Duration | undefined;
  /** At most one task of this name with this key. */
  uniqueKey?: string | undefined;
  /** What happens if there is one: it is kept and returned (default), replaced while it is pending, or the call is refused. */
  onDuplicate?: "keep" | "replace" | "refuse" | undefined;
  /** The states in which a task with this key counts (default: pending, claimed, running). */
  uniqueOver?: TaskState[] | undefined;
  /** How long after it was enqueued a task with this key counts (default: as long as its state does). */
  uniqueFor?: Duration | undefined;
  /** Waits until no task with this unique key has been enqueued for this long, and runs the last one. */
  debounce?: Duration | undefined;
  /** Never two at once with the same key, in any queue, on any machine. */
  exclusiveKey?: string | undefined;
  /** How many at once with the same exclusive key (default 1). */
  exclusiveLimit?: number | undefined;
  /** A budget of `limit` starts for tasks with this key, in any queue, earned back evenly over `per`. */
  rateLimit?: { key: string; limit: number; per: Duration } | undefined;
  /** Kept with the task and shown; not seen by the handler's schema. */
  metadata?: unknown | undefined;
  /** Enqueue inside this transaction of yours: the task exists if and only if it commits. */
  tx?: Transaction | undefined;
}

const isKey = isText({ max: 512 });
const isWait = isDuration({ minMs: 0, maxMs: MAX_DURATION_MS });

const isId: Check<string> = (value, path, problems) => {
  if (isUuid(value)) return value.toLowerCase();
  problems.add(path, `must be a UUID, not ${describe(value)}`);
  return undefined;
};

const isGivenTransaction: Check<Transaction> = (value, path, problems) => {
  if (isTransaction(value)) return value;
  problems.add(path, NOT_A_TRANSACTION);
  return undefined;
};

export const ENQUEUE_SHAPE = {
  id: isId,
  queue: isName,
  priority: isInteger(PRIORITY_RANGE),
  delay: isWait,
  runAt: isInstant,
  expiresAt: isInstant,
  expiresIn: isWait,
  uniqueKey: isKey,
  onDuplicate: isOneOf(["keep", "replace", "refuse"]),
  uniqueOver: isListOf(isOneOf(TASK_STATES)),
  uniqueFor: isWait,
  debounce: isWait,
  exclusiveKey: isKey,
  exclusiveLimit: isInteger({ min: 1, max: 10_000 }),
  rateLimit: isKeyedRateLimit,
  metadata: anything,
  tx: isGivenTransaction,
};

type OptionName = keyof typeof ENQUEUE_SHAPE;

/** What is asked of a task besides its input: often of many tasks alike. */
export interface Terms {
  /** The id that the caller chose. */
  readonly id: TaskId | undefined;
  readonly name: string;
  readonly uniqueKey: string | undefined;
  readonly tx: Transaction | undefined;
  readonly json: string;
  /** All there is to them, where nothing else was asked for: due at once, no keys, no id. */
  readonly bare: BareTerms | undefined;
}

export interface BareTerms {
  readonly name: string;
  readonly queue: string;
  readonly priority: number;
}

export interface TermsParts {
  readonly task: AnyTask;
  readonly options: unknown;
  readonly path: string;
  readonly limitBytes: number;
}

/** Everything that is wrong goes to `problems`; the terms count only if there was nothing. */
export function checkTerms(parts: TermsParts, problems: Problems): Terms {
  const { task, path } = parts;
  const given = checkEnqueueOptions(parts.options, path, problems);
  const metadata = given.metadata === undefined ? undefined : toJson(given.metadata, parts.limitBytes);
  if (metadata?.ok === false) problems.add(pathOf(path, "metadata"), metadata.problem);
  const bare = {
    name: task.name,
    queue: given.queue ?? task.settings.queue,
    priority: given.priority ?? task.settings.priority,
  };
  const others = {
    runAt: given.runAt,
    delayMs: given.debounce ?? given.delay,
    expiresAt: given.expiresAt,
    expiresInMs: given.expiresIn,
    uniqueKey: given.uniqueKey,
    uniqueOver: given.uniqueOver,
    uniqueForMs: given.uniqueFor,
    onDuplicate: given.onDuplicate ?? (given.debounce === undefined ? undefined : "replace"),
    exclusiveKey: given.exclusiveKey,
    exclusiveLimit: given.exclusiveKey === undefined ? undefined : (given.exclusiveLimit ?? 1),
    rateKey: given.rateLimit?.key,
    rateLimit: given.rateLimit?.limit,
    ratePerMs: given.rateLimit?.perMs,
    // JSON within text: stored to the letter.
    metadata: metadata?.ok ? metadata.text : undefined,
  };
  const isBare = given.id === undefined && Object.values(others).every((value) => value === undefined);
  return {
    id: given.id as TaskId | undefined,
    name: task.name,
    uniqueKey: given.uniqueKey,
    tx: given.tx,
    json: JSON.stringify({ ...bare, ...others }),
    bare: isBare ? bare : undefined,
  };
}

/** The options of `enqueueMany` itself. Those of its tasks are one level deeper, which is easily forgotten. */
export function checkMany<How extends object>(inputs: unknown, how: How): How {
  const problems = new Problems();
  if (!Array.isArray(inputs)) problems.add("inputs", "must be a list");
  const misplaced = Object.keys(how ?? {}).filter((key) => key !== "tx" && Object.hasOwn(ENQUEUE_SHAPE, key));
  for (const key of misplaced) problems.add(key, `there is no such option here; give it as options: { ${key}: … }`);
  const others = misplaced.length === 0 ? how : without(how, misplaced);
  checkOptions(others, { options: anything, tx: anything }, { path: "", problems });
  problems.throwIfAny("enqueueMany");
  return how;
}

function without(options: object, keys: readonly string[]): object {
  return Object.fromEntries(Object.entries(options).filter(([key]) => !keys.includes(key)));
}

export function checkEnqueueOptions(options: unknown, path: string, problems: Problems): Checked<typeof ENQUEUE_SHAPE> {
  const given = checkOptions(options, ENQUEUE_SHAPE, { path, problems });
  checkCombinations(options, path, problems);
  checkExpiry(given, path, problems);
  return given;
}

/** By what was given, whether it makes sense or not: so that all problems come out together. */
function checkCombinations(options: unknown, path: string, problems: Problems): void {
  const clash = (a: OptionName, b: OptionName) => {
    if (isGiven(options, a) && isGiven(options, b))
      problems.add(path, `${a} and ${b} exclude each other; give one of them`);
  };
  const needs = (option: OptionName, other: OptionName) => {
    if (isGiven(options, option) && !isGiven(options, other)) problems.add(pathOf(path, option), `needs ${other}`);
  };
  clash("delay", "runAt");
  clash("delay", "debounce");
  clash("runAt", "debounce");
  clash("expiresAt", "expiresIn");
  needs("onDuplicate", "uniqueKey");
  needs("uniqueOver", "uniqueKey");
  needs("uniqueFor", "uniqueKey");
  needs("debounce", "uniqueKey");
  needs("exclusiveLimit", "exclusiveKey");
  const { debounce, onDuplicate } = (options ?? {}) as { debounce?: unknown; onDuplicate?: unknown };
  if (debounce !== undefined && (onDuplicate === "keep" || onDuplicate === "refuse")) {
    problems.add(pathOf(path, "onDuplicate"), `must be "replace" with debounce, or left out`);
  }
}

/** Where one is a moment and the other a while, the database compares them, by its own clock. */
function checkExpiry(given: Checked<typeof ENQUEUE_SHAPE>, path: string, problems: Problems): void {
  const { runAt, expiresAt, expiresIn } = given;
  const waitMs = given.debounce ?? given.delay ?? 0;
  const isTooSoon =
    (waitMs > 0 && expiresIn !== undefined && waitMs >= expiresIn) ||
    (runAt !== undefined && expiresAt !== undefined && new Date(runAt) >= new Date(expiresAt));
  if (isTooSoon) problems.add(path, "it would expire before it may start: let it expire later, or start sooner");
}

function isGiven(options: unknown, name: string): boolean {
  return (options as Record<string, unknown> | null | undefined)?.[name] !== undefined;
}
