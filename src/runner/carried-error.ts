/** Errors on their way between a replica and its runners: what is on record of them, and back to an error. Pure. */
import { clipGiven } from "../clip.ts";
import { type ErrorRecord, toErrorRecord } from "../task/error-record.ts";
import {
  ClaimLostError,
  CutOffError,
  InvalidInputError,
  ResultNotStorableError,
  TaskCancelledError,
  TaskTimedOutError,
  WorkerStoppingError,
} from "../task/errors.ts";
import type { ClaimId, TaskId } from "../task/ids.ts";

export interface CarriedError extends ErrorRecord {
  /** Not worth another try: the error says so itself, or its task's `retry.unless` does. */
  readonly retryable?: false;
  /** What an error of ours knows besides its message. */
  readonly fields?: Readonly<Record<string, unknown>>;
}

const NO_CODE = "TASK_FAILED";
/** A message has a longest length (see protocol.ts), so the fields of an error have one too. */
const MAX_TEXT = 16_384;
const MAX_ENTRIES = 100;
const MAX_ENTRY = 1_000;
const FIELDS = ["claimId", "taskId", "reason", "timeoutMs", "task", "problems"] as const;

export function carryError(thrown: unknown, isWorthRetrying: (error: unknown) => boolean = () => true): CarriedError {
  return {
    ...toErrorRecord(thrown, NO_CODE),
    ...(isPointless(thrown, isWorthRetrying) ? { retryable: false } : {}),
    fields: Object.fromEntries(FIELDS.flatMap((name) => fieldOf(thrown, name))),
  };
}

/** One of our own where it was one, so that `instanceof` means on both sides what it means on one; else an error that looks the same. */
export function reviveError(carried: CarriedError): Error {
  const error = reviveOwn(carried) ?? reviveAny(carried);
  if (carried.stack !== undefined) error.stack = `${error.name}: ${error.message}\n${carried.stack}`;
  if (carried.retryable === false) Object.assign(error, { retryable: false });
  return error;
}

/** Undefined for an error of somebody else's that has the code of one of ours, and not its fields. */
function reviveOwn({ code, message, cause, fields = {} }: CarriedError): Error | undefined {
  const { claimId, taskId, reason, timeoutMs, task, problems } = fields;
  const isOfTask = typeof taskId === "string";
  const id = taskId as TaskId;
  switch (code) {
    case "CLAIM_LOST":
      return isOfTask && typeof claimId === "string" ? new ClaimLostError(claimId as ClaimId, id) : undefined;
    case "TASK_CANCELLED":
      return isOfTask ? new TaskCancelledError(id, typeof reason === "string" ? reason : undefined) : undefined;
    case "TASK_TIMED_OUT":
      return isOfTask && typeof timeoutMs === "number" ? new TaskTimedOutError(id, timeoutMs) : undefined;
    case "WORKER_STOPPING":
      return isOfTask ? new WorkerStoppingError(id) : undefined;
    case "CUT_OFF":
      return isOfTask ? new CutOffError(id) : undefined;
    case "INVALID_INPUT":
      return typeof task === "string" && Array.isArray(problems) ? new InvalidInputError(task, problems) : undefined;
    case "RESULT_NOT_STORABLE":
      return Object.assign(new ResultNotStorableError("", { problem: "" }), { message, ...causeOf(cause) });
    default:
      return undefined;
  }
}

function reviveAny({ code, name, message, cause, errors, errorsLeftOff }: CarriedError): Error {
  const error = new Error(message, causeOf(cause));
  if (name !== undefined) error.name = name;
  if (errors !== undefined) Object.assign(error, { errors: errors.map(reviveAny), errorsLeftOff });
  return code === NO_CODE ? error : Object.assign(error, { code });
}

function causeOf(cause: ErrorRecord | undefined): { cause?: Error } {
  return cause === undefined ? {} : { cause: reviveAny(cause) };
}

function fieldOf(thrown: unknown, name: string): [string, unknown][] {
  try {
    const value = (thrown as Record<string, unknown>)[name];
    if (typeof value === "number") return [[name, value]];
    if (typeof value === "string") return [[name, clipGiven(value, MAX_TEXT, "…")]];
    const entries: unknown[] = Array.isArray(value) ? value.slice(0, MAX_ENTRIES) : [];
    const isTexts = Array.isArray(value) && entries.every((entry) => typeof entry === "string");
    return isTexts ? [[name, entries.map((entry) => clipGiven(entry as string, MAX_ENTRY, "…"))]] : [];
  } catch {
    return [];
  }
}

/** A judgement that throws is no judgement. */
function isPointless(thrown: unknown, isWorthRetrying: (error: unknown) => boolean): boolean {
  try {
    return !isWorthRetrying(thrown);
  } catch {
    return false;
  }
}
