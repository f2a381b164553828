/** What occurs in the answers of several operations. */
import * as z from "zod";
import { PROFILES, type ProfileName, type RecoverySettings } from "../config/recovery-options.ts";
import { HEART_STATES } from "../recovery/heart-state.ts";
import { advice, count, instant, listOf, milliseconds, uuid } from "./schemas.ts";

export const queueRow = z.strictObject({
  name: z.string(),
  isPaused: z.boolean(),
  trouble: z.string().nullable(),
  concurrency: count.nullable(),
  rateLimit: z.strictObject({ limit: count, perMs: milliseconds }).nullable(),
  ready: count,
  delayed: count,
  parked: count,
  claimed: count,
  running: count,
  oldestDueMs: milliseconds.nullable(),
});

/** With its heart, as of this moment. */
export const replica = {
  id: uuid,
  hostname: z.string(),
  pid: z.int(),
  version: z.string(),
  status: z.enum(["online", "draining", "offline", "dead"]),
  machineId: z.string().nullable(),
  startedAt: instant,
  seenAt: instant,
  silentForMs: milliseconds.nullable(),
  hasSession: z.boolean(),
  holdsSession: z.boolean(),
  sessionFreeForMs: milliseconds.nullable(),
  promiseMs: milliseconds.nullable(),
  sessionPromiseMs: milliseconds.nullable(),
  intervalMs: milliseconds.nullable(),
  vitals: z.record(z.string(), z.number()).nullable(),
  diedAt: instant.nullable(),
  /** What is on record of its death, by whatever version declared it dead. */
  death: z.record(z.string(), z.unknown()).nullable(),
  tasks: listOf(z.string()),
  queues: listOf(z.string()).nullable(),
  unheardSince: instant.nullable(),
  claimed: count,
  running: count,
  heart: z.enum(HEART_STATES),
};

export const reliability = z.strictObject({
  machineId: z.string(),
  hostname: z.string(),
  upForMs: milliseconds.optional(),
  observedForMs: milliseconds,
  deaths: count,
  silences: count,
  deathsPerDay: z.number(),
  meanMsBetweenDeaths: milliseconds.optional(),
  isFlapping: z.boolean(),
  deathsLately: count,
  silencesLately: count,
});

/** Left out of the JSON where there are none, and undefined here. */
const millisecondsIfAny = milliseconds.optional() as unknown as z.ZodType<number | undefined, number | undefined>;

/** Those on record may be of another version, which has more of them. */
export const settings: z.ZodType<RecoverySettings, RecoverySettings> = z.looseObject({
  profile: z.enum(Object.keys(PROFILES) as [ProfileName, ...ProfileName[]]),
  requeuesClaimed: z.boolean(),
  claimedDeadAfterMs: milliseconds,
  recoversRunning: z.boolean(),
  runningDeadAfterMs: milliseconds,
  claimerIntervalMs: milliseconds,
  runnerIntervalMs: milliseconds,
  staleAfterMs: milliseconds,
  checkMs: milliseconds,
  sessionGraceMs: millisecondsIfAny,
  historyAgeMs: milliseconds,
  purgeAgeMs: milliseconds,
  purgeEveryMs: milliseconds,
  postMortemAgeMs: milliseconds,
  crashBudget: count,
  massDeath: z.strictObject({ share: z.number(), atLeast: count, holdMs: milliseconds }),
  blockedLoop: z.strictObject({
    stackAfterMs: milliseconds,
    timeoutGraceMs: milliseconds,
    endAfterMs: millisecondsIfAny,
  }),
});

export const listening = z.strictObject({
  hearingSince: instant,
  sweptAt: instant,
  sweptBy: uuid.nullable(),
  sweepMs: milliseconds.nullable(),
  sweptAgoMs: milliseconds,
  /** Sources of silence whose deaths are held back. */
  holds: listOf(
    z.strictObject({
      source: z.string(),
      /** What fell silent together, in the plural: "machines". */
      counted: z.string(),
      since: instant,
      isConfirmed: z.boolean(),
    }),
  ),
});

/** A service that runs once in the cluster. */
export const turn = z.strictObject({
  service: z.string(),
  /** The interval at which it is run by whoever had it last. */
  everyMs: milliseconds,
  /** Who ran it last, or is running it: a replica, or a process without a worker. */
  takenBy: uuid,
  takenOn: z.string(),
  takenAt: instant,
  takenAgoMs: milliseconds,
  isRunning: z.boolean(),
  /** Of the last run that ended. */
  endedAt: instant.nullable(),
  tookMs: milliseconds.nullable(),
  error: z.string().nullable(),
  /** How many in a row have failed. */
  failures: count,
});

export const alert = z.strictObject({
  id: z.string(),
  kind: z.string(),
  severity: z.enum(["warning", "critical"]),
  subject: z.string(),
  message: z.string(),
  details: z.unknown(),
  advice: listOf(advice),
  raisedAt: instant,
  lastRaisedAt: instant,
  times: count,
  resolvedAt: instant.nullable(),
});
