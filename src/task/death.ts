/**
 * What a death is: the one table of how a process or a runner can have ended, with its words, and what is put on record of it. A record may have been
 * written by another version, or by somebody by hand. Pure.
 */
import { storableText } from "./error-record.ts";
import { type ClaimId, isUuid, type TaskId } from "./ids.ts";

interface ReasonWords {
  /** Where nobody saw more: for the error of an attempt and for a post-mortem. */
  readonly words: string;
  /** For a column of a table. */
  readonly short: string;
}

/** A line for each reason. What has to be said of one besides, the compiler and test/unit/death.test.ts ask for. */
export const DEATH_REASONS = {
  silent: { words: "its heart fell silent", short: "it fell silent" },
  "session-lost": { words: "its database session ended and did not come back", short: "its session ended" },
  offline: { words: "its replica had left", short: "it left" },
  missing: { words: "its replica is not on record", short: "not on record" },
  "runner-ended": { words: "its runner ended", short: "its runner ended" },
  "runner-silent": { words: "its runner fell silent and was ended", short: "its runner fell silent" },
  "stopped-by-task": { words: "this task told it to stop", short: "stopped by a task" },
  exited: { words: "its process ended", short: "its process ended" },
  "loop-blocked": {
    words: "it was ended because its event loop was blocked",
    short: "ended, its loop was blocked",
  },
  /** Its record is missing, or nobody here understands it. */
  unknown: { words: "how it ended is not on record", short: "nobody knows how" },
} as const satisfies Readonly<Record<string, ReasonWords>>;
export type DeathReason = keyof typeof DEATH_REASONS;

/** Those that a verdict on a heart can have: `declare_dead` looks at the evidence of each again in the moment of writing, and refuses all others. */
export const VERDICT_REASONS = ["session-lost", "silent"] as const satisfies readonly DeathReason[];
export type VerdictReason = (typeof VERDICT_REASONS)[number];

/** Of all processes that share a limit, just before one of them ended. */
export interface GroupMemory {
  /** The most that they held together. */
  readonly used: number;
  readonly limit: number;
  /** How many of them the kernel killed for want of memory at that time. */
  readonly kills: number;
  /** The one that ended had grown more than all the others together, just before. */
  readonly grewMost?: boolean | undefined;
}

export interface ExitCall {
  readonly taskId: TaskId;
  readonly name: string;
  readonly exitCode: number;
}

/** What whoever declares a replica dead writes into its row. */
export interface DeathRecord {
  readonly because: DeathReason;
  readonly machineId?: string | undefined;
  readonly hostname?: string | undefined;
  readonly silentForMs?: number | undefined;
  readonly vitals?: unknown;
  /** It was draining: told to go, and not gone in time. */
  readonly wasDraining?: boolean | undefined;
  /** False: another task is known to be at fault. */
  readonly isCharged?: boolean | undefined;
  readonly exitCode?: number | null | undefined;
  readonly signal?: string | null | undefined;
  /** The memory of its cgroup, as told by whoever saw it end. */
  readonly group?: GroupMemory | undefined;
  /** Replicas in processes that shared that memory with it. */
  readonly sharedWith?: readonly string[] | undefined;
  /** A task that had ended before, or what it had left behind, called `process.exit()`: none of those that were running is at fault. */
  readonly exitCall?: ExitCall | undefined;
  /** Where its loop was blocked, if it was and that could be seen. */
  readonly stack?: string;
  /** For how long its loop had been blocked when its heart ended the process for that. */
  readonly blockedForMs?: number | undefined;
  /** Attempts that had blocked its loop past their timeout, for which its heart ended the process. */
  readonly timedOut?: readonly TimedOutAttempt[] | undefined;
}

export interface TimedOutAttempt {
  readonly claimId: ClaimId;
  readonly taskId: TaskId;
  readonly name: string;
}

/** What a verdict puts on record. */
export type VerdictRecord = DeathRecord & { readonly because: VerdictReason };

type Read<T> = (value: unknown) => T | undefined;
const boolean: Read<boolean> = (value) => (typeof value === "boolean" ? value : undefined);
const number: Read<number> = (value) => (Number.isFinite(value) ? (value as number) : undefined);
const integer: Read<number> = (value) => (Number.isInteger(value) ? (value as number) : undefined);
const text: Read<string> = (value) => (typeof value === "string" ? storableText(value) : undefined);

const group: Read<GroupMemory> = (value) => {
  const found = (typeof value === "object" && value !== null ? value : {}) as Record<keyof GroupMemory, unknown>;
  const [used, limit, kills] = [number(found.used), number(found.limit), number(found.kills)];
  if (used === undefined || kills === undefined || limit === undefined || limit <= 0) return undefined;
  const grewMost = boolean(found.grewMost);
  return { used, limit, kills, ...(grewMost === undefined ? {} : { grewMost }) };
};

const ids: Read<readonly string[]> = (value) =>
  Array.isArray(value) && value.every(isUuid) && value.length > 0 ? value : undefined;

const exitCall: Read<ExitCall> = (value) => {
  const { taskId, name, exitCode } = (value ?? {}) as Partial<Record<keyof ExitCall, unknown>>;
  if (!isUuid(taskId)) return undefined;
  return { taskId: taskId as TaskId, name: text(name) ?? "?", exitCode: integer(exitCode) ?? 0 };
};

const timedOut: Read<readonly TimedOutAttempt[]> = (value) => {
  if (!Array.isArray(value)) return undefined;
  const read = value.flatMap((one): TimedOutAttempt[] => {
    const { claimId, taskId, name } = (one ?? {}) as Partial<Record<keyof TimedOutAttempt, unknown>>;
    if (typeof claimId !== "string" || !/^\d{1,18}$/.test(claimId) || !isUuid(taskId)) return [];
    return [{ claimId: claimId as ClaimId, taskId: taskId as TaskId, name: text(name) ?? "?" }];
  });
  return read.length > 0 ? read : undefined;
};

/** One for each field: the compiler asks for those that are new. */
const FIELDS: { readonly [Field in Exclude<keyof DeathRecord, "because">]-?: Read<DeathRecord[Field]> } = {
  machineId: text,
  hostname: text,
  silentForMs: number,
  vitals: (value) => (typeof value === "object" ? value : undefined),
  wasDraining: boolean,
  isCharged: boolean,
  exitCode: integer,
  signal: text,
  group,
  sharedWith: ids,
  exitCall,
  stack: text,
  blockedForMs: number,
  timedOut,
};

/** Whatever is not understood is left out; a reason that is not is `unknown`, and never taken for another. */
export function readDeath(value: unknown): DeathRecord {
  const record = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  const { because } = record;
  const read = Object.entries(FIELDS).map(([field, readField]) => [field, readField(record[field])] as const);
  return {
    ...(Object.fromEntries(read.filter(([, found]) => found !== undefined)) as Omit<DeathRecord, "because">),
    because: isDeathReason(because) ? because : "unknown",
  };
}

function isDeathReason(value: unknown): value is DeathReason {
  return typeof value === "string" && Object.hasOwn(DEATH_REASONS, value);
}
