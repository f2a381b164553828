/** Operations on tasks. */
import * as z from "zod";
import { InvalidOptionsError } from "../config/problems.ts";
import type { Ordered } from "../index.ts";
import { ENQUEUE_SHAPE } from "../queue/enqueue-options.ts";
import { isResultTimeout } from "../queue/results.ts";
import { CANCEL_RULES, PAGE_RULES, QUERY_RULES, type TaskQuery } from "../queue/task-orders.ts";
import { TaskNotFoundError } from "../task/errors.ts";
import { TaskIds } from "../task/ids.ts";
import { isName } from "../task/settings.ts";
import { ATTEMPT_OUTCOMES } from "../task/states.ts";
import { between, operation } from "./operation.ts";
import {
  claimId,
  count,
  duration,
  errorRecord,
  instant,
  listOf,
  milliseconds,
  optionsBy,
  ruled,
  state,
  taskId,
  uuid,
} from "./schemas.ts";

const query = {
  ...{ state, name: z.string(), queue: z.string(), replicaId: z.string(), errorCode: z.string() },
  ...{ createdAfter: z.string(), createdBefore: z.string() },
};

const summary = {
  id: uuid,
  name: z.string(),
  queue: z.string(),
  priority: z.int(),
  state,
  attempt: count,
  failures: count,
  crashes: count,
  createdAt: instant,
  runAt: instant,
  claimId: claimId.nullable(),
  replicaId: uuid.nullable(),
  claimedAt: instant.nullable(),
  startedAt: instant.nullable(),
  endedAt: instant.nullable(),
  isCancelling: z.boolean(),
  isParked: z.boolean(),
  isUnknown: z.boolean(),
  error: errorRecord.nullable(),
};

const progress = z.strictObject({
  claimId,
  phase: z.string().nullable(),
  details: z.unknown(),
  share: z.number().nullable(),
  done: z.number().nullable(),
  total: z.number().nullable(),
  note: z.string().nullable(),
  changedAt: instant.nullable(),
  log: listOf(z.strictObject({ at: z.string(), level: z.string(), text: z.string() })).nullable(),
});

const attempt = z.strictObject({
  claimId,
  attempt: count,
  replicaId: uuid,
  claimedAt: instant,
  startedAt: instant.nullable(),
  endedAt: instant.nullable(),
  outcome: z.enum([...ATTEMPT_OUTCOMES, "claimed", "running"]),
  error: errorRecord.nullable(),
  progress: progress.nullable(),
  postMortem: z.string().nullable(),
});

const late = z.strictObject({
  claimId,
  replicaId: uuid,
  outcome: z.enum(ATTEMPT_OUTCOMES),
  error: errorRecord.nullable(),
  arrivedAt: instant,
});

export const tasksList = operation({
  name: "tasks.list",
  role: "viewer",
  changes: false,
  description: "a page of tasks, newest first",
  input: z.strictObject(optionsBy(PAGE_RULES, { ...query, limit: z.int(), before: z.string() })),
  answer: z.strictObject({ tasks: listOf(z.strictObject(summary)), next: uuid.nullable() }),
  async run(everbeat, page) {
    const { tasks, next } = await everbeat.tasks.list(page);
    return { tasks, next: next ?? null };
  },
});

export const tasksShow = operation({
  name: "tasks.show",
  role: "viewer",
  changes: false,
  description: "one task: its input, its result, every attempt",
  input: z.strictObject({ id: taskId }),
  answer: z.strictObject({
    ...summary,
    input: z.unknown(),
    metadata: z.unknown(),
    result: z.unknown(),
    uniqueKey: z.string().nullable(),
    exclusiveKey: z.string().nullable(),
    rateLimit: z.strictObject({ key: z.string(), limit: count, perMs: milliseconds }).nullable(),
    expiresAt: instant.nullable(),
    attempts: listOf(attempt),
    attemptsDropped: count,
    late: listOf(late),
    runner: z
      .strictObject({
        id: uuid,
        kind: z.enum(["thread", "process"]),
        pid: z.int(),
        status: z.enum(["starting", "idle", "busy", "ending", "ended"]),
      })
      .nullable(),
  }),
  run: ({ tasks }, { id }) => tasks.show(id),
});

export const tasksCounts = operation({
  name: "tasks.counts",
  role: "viewer",
  changes: false,
  description: "how many tasks are in each state",
  input: z.strictObject({}),
  answer: z.record(state, count),
  run: ({ tasks }) => tasks.counts(),
});

export const tasksCancel = operation({
  name: "tasks.cancel",
  role: "operator",
  changes: true,
  description: "cancel tasks, by their ids or by filters; a running one is told through its signal",
  input: z.strictObject({
    ids: listOf(taskId).optional(),
    ...optionsBy(QUERY_RULES, query),
    ...optionsBy(CANCEL_RULES, { reason: z.string(), grace: duration }),
  }),
  answer: orderedAs(["cancelled", "cancelling", "ended", "unknown"]),
  async run({ tasks }, { ids, reason, grace, ...filter }, context) {
    const onProgress = between(context);
    return withCounts(await tasks.cancel(chosen("tasks.cancel", ids, filter), { reason, grace, onProgress }));
  },
});

export const tasksRetry = operation({
  name: "tasks.retry",
  role: "operator",
  changes: true,
  description: "run failed tasks again and waiting ones at once, by their ids or by filters",
  input: z.strictObject({
    ids: listOf(taskId).optional(),
    ...optionsBy(QUERY_RULES, query),
    force: z.boolean().optional(),
  }),
  answer: orderedAs(["pending", "due", "taken", "held", "ended", "unrecorded", "unknown"]),
  async run({ tasks }, { ids, force, ...filter }, context) {
    const onProgress = between(context);
    return withCounts(await tasks.retry(chosen("tasks.retry", ids, filter), { force, onProgress }));
  },
});

const { tx: _, ...ENQUEUE_RULES } = ENQUEUE_SHAPE;

export const tasksEnqueue = operation({
  name: "tasks.enqueue",
  role: "operator",
  changes: true,
  description: "put a task in by its name; queue and priority are those of its definition",
  input: z.strictObject({
    name: ruled(isName, z.string()),
    input: z.unknown().optional(),
    /** Instead of it, as text that is kept to the letter. */
    inputJson: z.string().optional(),
    options: z
      .strictObject(
        optionsBy(ENQUEUE_RULES, {
          ...{ id: z.string(), queue: z.string(), priority: z.int(), delay: duration, runAt: z.string() },
          ...{ expiresAt: z.string(), expiresIn: duration, uniqueKey: z.string() },
          onDuplicate: z.enum(["keep", "replace", "refuse"]),
          uniqueOver: z.array(state),
          ...{ uniqueFor: duration, debounce: duration, exclusiveKey: z.string(), exclusiveLimit: z.int() },
          rateLimit: z.strictObject({ key: z.string(), limit: z.int(), per: duration }),
          metadata: z.unknown(),
        }),
      )
      .optional(),
  }),
  answer: z.strictObject({
    id: uuid,
    name: z.string(),
    /** Null: its key is that of a task whose record has been removed. */
    queue: z.string().nullable(),
    /** Under this unique key. */
    wasThere: z.boolean(),
    /** No worker that is online knows a task of this name. */
    isUnknown: z.boolean(),
  }),
  async run({ tasks }, { name, options = {}, ...given }) {
    const chosenId = options.id ?? new TaskIds().next();
    const id = await tasks.enqueue({ name, ...given, options: { ...options, id: chosenId } });
    const wasThere = id !== chosenId.toLowerCase();
    try {
      const { queue, isUnknown } = await tasks.show(id);
      return { id, name, queue, wasThere, isUnknown };
    } catch (error) {
      // A key may be taken by a task whose record was removed: it is asked for longer than records stay.
      if (!(error instanceof TaskNotFoundError)) throw error;
      return { id, name, queue: null, wasThere, isUnknown: false };
    }
  },
});

export const tasksResult = operation({
  name: "tasks.result",
  role: "viewer",
  changes: false,
  description: "wait until a task has ended, and say what it returned",
  input: z.strictObject({ id: taskId, timeout: ruled(isResultTimeout, duration).optional() }),
  answer: z.strictObject({ id: z.string(), result: z.unknown() }),
  async run(everbeat, { id, timeout }, { signal }) {
    return { id, result: await everbeat.result(id, { timeout, signal }) };
  },
});

function orderedAs<const Outcome extends string>(outcomes: readonly Outcome[]) {
  const outcome = z.enum(outcomes);
  return z.strictObject({
    tasks: listOf(z.strictObject({ id: uuid, outcome })),
    counts: z.partialRecord(outcome, count),
  });
}

function withCounts<Outcome extends string>(tasks: readonly Ordered<Outcome>[]) {
  const counts: Partial<Record<Outcome, number>> = {};
  for (const { outcome } of tasks) counts[outcome] = (counts[outcome] ?? 0) + 1;
  return { tasks, counts };
}

/** Ids or filters, never both: an order to more tasks than were meant cannot be taken back. */
function chosen(name: string, ids: readonly string[] | undefined, filter: TaskQuery): readonly string[] | TaskQuery {
  if (ids === undefined) return filter;
  if (Object.values(filter).some((value) => value !== undefined))
    throw new InvalidOptionsError(`The input of ${name}`, ["ids and filters exclude each other"]);
  return ids;
}
