/** How silence is judged and what follows: named profiles, every option by itself, and the rules between them. */
import {
  type Check,
  checkOptions,
  describe,
  isBoolean,
  isDuration,
  isInteger,
  isOneOf,
  isOptions,
  pathOf,
} from "./checks.ts";
import { type Duration, formatDuration } from "./duration.ts";
import type { Problems } from "./problems.ts";

export interface RecoveryOptions {
  /** Where the numbers come from that are not given one by one (default "fast"). */
  profile?: ProfileName | undefined;
  /** Give tasks back that a dead replica had claimed and not started. */
  autoRequeueStaleClaimed?: boolean | undefined;
  claimedStaleThreshold?: Duration | undefined;
  claimerHeartbeatInterval?: Duration | undefined;
  /** Recover tasks that a dead replica was running, as their `onCrash` says. */
  autoFailStaleRunning?: boolean | undefined;
  runningStaleThreshold?: Duration | undefined;
  runnerHeartbeatInterval?: Duration | undefined;
  /** From this silence on a replica is shown as stale: a warning, and nothing else. */
  warnAfter?: Duration | undefined;
  checkInterval?: Duration | undefined;
  /** Whether the end of a replica's database session counts as evidence. */
  sessionEvidence?: boolean | undefined;
  /** How long a session may be gone before that counts. */
  sessionGrace?: Duration | undefined;
  /** How long the history of beats is kept. */
  historyAge?: Duration | undefined;
  /** How long a replica that is gone stays on record, and how often the old ones are removed. */
  purgeAge?: Duration | undefined;
  purgeInterval?: Duration | undefined;
  /** How long post-mortems, and the deaths and silences of machines, stay on record (default 30 days). */
  postMortemAge?: Duration | undefined;
  /** How many crashes a task may cost before it is put into quarantine, where its definition says nothing else. */
  crashBudget?: number | undefined;
  /** When more than `share` of the machines, and at least `atLeast`, would die at once, recovery holds for at most `hold`. */
  massDeath?: { share?: number; atLeast?: number; hold?: Duration };
  /**
   * A main thread whose event loop does not turn: noted with its stack after `stackAfter`; its process ended once the loop has been
   * blocked past a task's timeout for `timeoutGrace`, or, timeouts or not, after `endAfter`.
   */
  blockedLoop?: { stackAfter?: Duration; timeoutGrace?: Duration; endAfter?: Duration };
}

export interface RecoverySettings {
  readonly profile: ProfileName;
  readonly requeuesClaimed: boolean;
  readonly claimedDeadAfterMs: number;
  readonly recoversRunning: boolean;
  readonly runningDeadAfterMs: number;
  readonly claimerIntervalMs: number;
  readonly runnerIntervalMs: number;
  readonly staleAfterMs: number;
  readonly checkMs: number;
  readonly sessionGraceMs: number | undefined;
  readonly historyAgeMs: number;
  readonly purgeAgeMs: number;
  readonly purgeEveryMs: number;
  readonly postMortemAgeMs: number;
  readonly crashBudget: number;
  readonly massDeath: { readonly share: number; readonly atLeast: number; readonly holdMs: number };
  readonly blockedLoop: {
    readonly stackAfterMs: number;
    readonly timeoutGraceMs: number;
    readonly endAfterMs: number | undefined;
  };
}

type Profile = Omit<
  RecoverySettings,
  "profile" | "requeuesClaimed" | "recoversRunning" | "postMortemAgeMs" | "crashBudget" | "massDeath" | "blockedLoop"
>;

/** How many beats may be missing before a warning, unless the user sets `warnAfter`; and before others take a heart for one that is not heard. */
export const WARN_AFTER_BEATS = 3;
const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** Seed numbers where a profile has a forerunner; each says whether sessions count as evidence. */
export const PROFILES = {
  /** Ours: a crash is known in about a second by its session, a vanished host in about a quarter of a minute by silence. */
  fast: {
    ...{ claimerIntervalMs: 2 * SECOND, claimedDeadAfterMs: 15 * SECOND },
    ...{ runnerIntervalMs: 2 * SECOND, runningDeadAfterMs: 15 * SECOND },
    ...{ staleAfterMs: 6 * SECOND, checkMs: 250, sessionGraceMs: SECOND },
    ...{ historyAgeMs: 24 * HOUR, purgeAgeMs: 24 * HOUR, purgeEveryMs: HOUR },
  },
  /** One heartbeat per replica: beat 10 s, dead after 1 min, scan 30 s, purge 1 h. */
  replica: {
    ...{ claimerIntervalMs: 10 * SECOND, claimedDeadAfterMs: MINUTE },
    ...{ runnerIntervalMs: 10 * SECOND, runningDeadAfterMs: MINUTE },
    ...{ staleAfterMs: 30 * SECOND, checkMs: 30 * SECOND, sessionGraceMs: undefined },
    ...{ historyAgeMs: HOUR, purgeAgeMs: HOUR, purgeEveryMs: HOUR },
  },
  /** Claimed and running apart: beats 30 s, claimed 2 min, running 5 min, check 30 s, history 24 h. */
  "claimed-and-running": {
    ...{ claimerIntervalMs: 30 * SECOND, claimedDeadAfterMs: 2 * MINUTE },
    ...{ runnerIntervalMs: 30 * SECOND, runningDeadAfterMs: 5 * MINUTE },
    ...{ staleAfterMs: 90 * SECOND, checkMs: 30 * SECOND, sessionGraceMs: undefined },
    ...{ historyAgeMs: 24 * HOUR, purgeAgeMs: 24 * HOUR, purgeEveryMs: HOUR },
  },
  /** The same for long CPU-bound tasks: runner beats every minute. */
  "cpu-heavy": {
    ...{ claimerIntervalMs: 30 * SECOND, claimedDeadAfterMs: 2 * MINUTE },
    ...{ runnerIntervalMs: MINUTE, runningDeadAfterMs: 5 * MINUTE },
    ...{ staleAfterMs: 2 * MINUTE, checkMs: 30 * SECOND, sessionGraceMs: undefined },
    ...{ historyAgeMs: 24 * HOUR, purgeAgeMs: 24 * HOUR, purgeEveryMs: HOUR },
  },
  /** The same for quick tasks: runner beats every 10 s, dead after 30 s. */
  quick: {
    ...{ claimerIntervalMs: 30 * SECOND, claimedDeadAfterMs: 2 * MINUTE },
    ...{ runnerIntervalMs: 10 * SECOND, runningDeadAfterMs: 30 * SECOND },
    ...{ staleAfterMs: 20 * SECOND, checkMs: 30 * SECOND, sessionGraceMs: undefined },
    ...{ historyAgeMs: 24 * HOUR, purgeAgeMs: 24 * HOUR, purgeEveryMs: HOUR },
  },
} as const satisfies Record<string, Profile>;

export type ProfileName = keyof typeof PROFILES;

const isInterval = isDuration({ minMs: 50, maxMs: HOUR });
const isThreshold = isDuration({ minMs: 100, maxMs: 24 * HOUR });
const isAge = isDuration({ minMs: SECOND, maxMs: 365 * 24 * HOUR });
const isShareAboveZero: Check<number> = (value, path, problems) => {
  if (typeof value === "number" && value > 0 && value <= 1) return value;
  problems.add(path, `must be a number above 0 and up to 1, not ${describe(value)}`);
  return undefined;
};

const SHAPE = {
  profile: isOneOf(Object.keys(PROFILES) as ProfileName[]),
  autoRequeueStaleClaimed: isBoolean,
  claimedStaleThreshold: isThreshold,
  claimerHeartbeatInterval: isInterval,
  autoFailStaleRunning: isBoolean,
  runningStaleThreshold: isThreshold,
  runnerHeartbeatInterval: isInterval,
  warnAfter: isThreshold,
  checkInterval: isDuration({ minMs: 20, maxMs: HOUR }),
  sessionEvidence: isBoolean,
  sessionGrace: isDuration({ minMs: 100, maxMs: HOUR }),
  historyAge: isAge,
  purgeAge: isAge,
  purgeInterval: isAge,
  postMortemAge: isAge,
  crashBudget: isInteger({ min: 1, max: 1_000 }),
  massDeath: isOptions({
    share: isShareAboveZero,
    atLeast: isInteger({ min: 1, max: 1_000_000 }),
    hold: isDuration({ minMs: 0, maxMs: HOUR }),
  }),
  blockedLoop: isOptions({
    // The main thread says every 100 ms that its loop turns: below a few of these nothing can be told.
    stackAfter: isDuration({ minMs: 300, maxMs: HOUR }),
    timeoutGrace: isDuration({ minMs: 300, maxMs: 24 * HOUR }),
    endAfter: isDuration({ minMs: 300, maxMs: 24 * HOUR }),
  }),
};

export function checkRecovery(options: unknown, problems: Problems, path = "recovery"): RecoverySettings {
  const given = checkOptions(options, SHAPE, { path, problems, example: '{ profile: "fast" }' });
  const profile = given.profile ?? "fast";
  const base: Profile = PROFILES[profile];
  const sessionGraceMs =
    given.sessionEvidence === false
      ? undefined
      : (given.sessionGrace ??
        base.sessionGraceMs ??
        (given.sessionEvidence ? PROFILES.fast.sessionGraceMs : undefined));
  const beats = {
    claimerIntervalMs: given.claimerHeartbeatInterval ?? base.claimerIntervalMs,
    runnerIntervalMs: given.runnerHeartbeatInterval ?? base.runnerIntervalMs,
  };
  const runningDeadAfterMs = given.runningStaleThreshold ?? base.runningDeadAfterMs;
  const hasOwnBeats = beatIntervalMs(beats) !== beatIntervalMs(base);
  const staleFromMs = hasOwnBeats ? WARN_AFTER_BEATS * beatIntervalMs(beats) : base.staleAfterMs;
  const settings: RecoverySettings = {
    profile,
    requeuesClaimed: given.autoRequeueStaleClaimed ?? true,
    claimedDeadAfterMs: given.claimedStaleThreshold ?? base.claimedDeadAfterMs,
    recoversRunning: given.autoFailStaleRunning ?? true,
    runningDeadAfterMs,
    ...beats,
    staleAfterMs: given.warnAfter ?? Math.min(staleFromMs, runningDeadAfterMs),
    checkMs: given.checkInterval ?? base.checkMs,
    sessionGraceMs,
    historyAgeMs: given.historyAge ?? base.historyAgeMs,
    purgeAgeMs: given.purgeAge ?? base.purgeAgeMs,
    purgeEveryMs: given.purgeInterval ?? base.purgeEveryMs,
    postMortemAgeMs: given.postMortemAge ?? 30 * 24 * HOUR,
    crashBudget: given.crashBudget ?? 3,
    massDeath: {
      share: given.massDeath?.share ?? 0.5,
      atLeast: given.massDeath?.atLeast ?? 3,
      holdMs: given.massDeath?.hold ?? MINUTE,
    },
    blockedLoop: {
      stackAfterMs: given.blockedLoop?.stackAfter ?? 5 * SECOND,
      timeoutGraceMs: given.blockedLoop?.timeoutGrace ?? 5 * SECOND,
      endAfterMs: given.blockedLoop?.endAfter,
    },
  };
  requireTwice(
    problems,
    path,
    ["claimedStaleThreshold", settings.claimedDeadAfterMs],
    ["claimerHeartbeatInterval", settings.claimerIntervalMs],
  );
  requireTwice(
    problems,
    path,
    ["runningStaleThreshold", settings.runningDeadAfterMs],
    ["runnerHeartbeatInterval", settings.runnerIntervalMs],
  );
  if (given.warnAfter !== undefined) requireBetween(problems, path, settings);
  return Object.freeze(settings);
}

/** How often a heart beats: one beat says both that a claimer lives and that a runner does. */
export function beatIntervalMs(beats: Pick<RecoverySettings, "claimerIntervalMs" | "runnerIntervalMs">): number {
  return Math.min(beats.claimerIntervalMs, beats.runnerIntervalMs);
}

/** One lost beat is no reason to warn, and a warning after a death would be useless. */
function requireBetween(problems: Problems, path: string, settings: RecoverySettings): void {
  const { staleAfterMs, runningDeadAfterMs } = settings;
  const leastMs = 2 * beatIntervalMs(settings);
  const [given, least, most] = [staleAfterMs, leastMs, runningDeadAfterMs].map(formatDuration);
  if (staleAfterMs < leastMs)
    problems.add(
      pathOf(path, "warnAfter"),
      `${given} is less than two beats (a heart beats every ${formatDuration(leastMs / 2)}); use at least ${least}, or leave it out`,
    );
  if (staleAfterMs > runningDeadAfterMs)
    problems.add(
      pathOf(path, "warnAfter"),
      `${given} is more than runningStaleThreshold (${most}), after which a replica is dead; use less, or leave it out`,
    );
}

/** One lost beat must never be a death. */
function requireTwice(problems: Problems, path: string, threshold: [string, number], interval: [string, number]): void {
  if (threshold[1] >= 2 * interval[1]) return;
  problems.add(
    pathOf(path, threshold[0]),
    `${formatDuration(threshold[1])} is less than twice ${interval[0]} (${formatDuration(interval[1])}); use at least ${formatDuration(2 * interval[1])}, or beat more often`,
  );
}
