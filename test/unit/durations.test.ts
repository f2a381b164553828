/** Every duration that a user can give, wherever it is given: whole milliseconds within bounds come out, or it is refused. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { asDuration, asRate, duration } from "../../src/cli/arguments.ts";
import { type Duration, durationMs, MAX_DURATION_MS } from "../../src/config/duration.ts";
import { checkOpen } from "../../src/config/open-options.ts";
import { InvalidOptionsError, Problems } from "../../src/config/problems.ts";
import { checkRecovery } from "../../src/config/recovery-options.ts";
import { heartPlanOf } from "../../src/heart/heart-plan.ts";
import { checkEnqueueOptions, checkTerms } from "../../src/queue/enqueue-options.ts";
import { checkQueue } from "../../src/queue/queue-orders.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { backoffMs } from "../../src/task/retry.ts";
import { settingsRecord } from "../../src/task/settings.ts";
import { Snooze, snooze } from "../../src/task/snooze.ts";
import { checkHandler } from "../../src/testing/handler-options.ts";
import { checkWork } from "../../src/worker/options.ts";

const run = () => null;
const task = defineTask({ name: "a", run });
const retried = (retry: object) =>
  settingsRecord(defineTask({ name: "a", retry: { attempts: 9, ...retry }, run }).settings);
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

/** Where a duration may be given, and what comes of it there. */
const EDGES: Record<string, (given: Duration) => unknown> = {
  snooze(given) {
    try {
      return snooze(given);
    } catch (error) {
      if (error instanceof Snooze) return { delayMs: error.delayMs };
      throw error;
    }
  },
  timeout: (timeout) => settingsRecord(defineTask({ name: "a", timeout, run }).settings),
  stalledAfter: (stalledAfter) => settingsRecord(defineTask({ name: "a", stalledAfter, run }).settings),
  "retry.delay": (delay) => retried({ delay, maxDelay: "365d" }),
  "retry.maxDelay": (maxDelay) => retried({ maxDelay }),
  "retry.backoff": (given) => retried({ backoff: ["1s", given] }),
  "the delay of a retry": (given) => {
    const { retry } = defineTask({
      name: "a",
      retry: { attempts: 9, backoff: [given], maxDelay: given, jitter: 0.3 },
      run,
    }).settings;
    return [0, 0.1, 0.9999].map((random) => backoffMs(3, retry, random));
  },
  "the delay of a retry that grows": (given) => {
    const { retry } = defineTask({ name: "a", retry: { attempts: 9, delay: given, jitter: 1 }, run }).settings;
    return [1, 7, 1_000, 2_147_483_647].map((failures) => backoffMs(failures, retry, 1 / 3));
  },
  delay: (delay) => terms({ delay }),
  debounce: (debounce) => terms({ debounce, uniqueKey: "k" }),
  uniqueFor: (uniqueFor) => terms({ uniqueFor, uniqueKey: "k" }),
  expiresIn: (expiresIn) => terms({ expiresIn }),
  "rateLimit.per": (per) => terms({ rateLimit: { key: "k", limit: 1, per } }),
  "a queue's rateLimit.per": (per) => checkQueue("q", { rateLimit: { limit: 1, per } }),
  cancelGrace: (cancelGrace) => checkOpen({ cancelGrace }).cancelGraceMs,
  replyTimeout: (replyTimeout) => checkOpen({ replyTimeout }).replyTimeoutMs,
  pollInterval: (pollInterval) => checkWork([task], { pollInterval }).pollMs,
  shutdownGrace: (shutdownGrace) => checkWork([task], { shutdownGrace }).shutdownGraceMs,
  abortGrace: (abortGrace) => checkWork([task], { abortGrace }).abortGraceMs,
  "retention.maxAge": (maxAge) => checkWork([task], { retention: { maxAge } }).retention.maxAgeMs,
  "runners.startTimeout": (startTimeout) => checkWork([task], { runners: { startTimeout } }).runners.startTimeoutMs,
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
  "massDeath.hold": (hold) => recovery({ massDeath: { hold } }),
  "blockedLoop.stackAfter": (stackAfter) => recovery({ blockedLoop: { stackAfter } }),
  "blockedLoop.timeoutGrace": (timeoutGrace) => recovery({ blockedLoop: { timeoutGrace } }),
  "blockedLoop.endAfter": (endAfter) => recovery({ blockedLoop: { endAfter } }),
  "testing: abortGrace": (abortGrace) => checkHandler("a", [], { abortGrace }),
  "a command's duration": (given) => duration({ minMs: 0, maxMs: MAX_DURATION_MS })(String(given)),
  "a command's delay": (given) => {
    const problems = new Problems();
    const checked = checkEnqueueOptions({ delay: asDuration(String(given)) }, "", problems);
    problems.throwIfAny("delay");
    return checked.delay;
  },
  "a command's rate": (given) => asRate(`5/${given}`)?.per,
};

const durations = fc.oneof(
  fc.double({ noNaN: true }),
  fc.double({ min: 0, max: 1_000_000, noNaN: true }),
  fc.integer(),
  fc
    .tuple(fc.double({ min: 0, max: 1e6, noNaN: true }), fc.constantFrom("ms", "s", "m", "h", "d"))
    .map(([number, unit]) => `${number.toFixed(4)}${unit}` as Duration),
  fc.constantFrom<Duration>(...([120.375, "1.005s", "0.4ms", "1.0005s", 1e300, -0, -0.4, "100.5ms"] as Duration[])),
  fc.bigInt({ min: 0n, max: 10n ** 400n }).map((digits) => `${digits}s` as Duration),
);

describe.each(Object.entries(EDGES))("%s", (_, edge) => {
  test("comes out in whole milliseconds and bounded, or is refused in our own words", () => {
    fc.assert(
      fc.property(durations, (given) => {
        let made: unknown;
        try {
          made = edge(given);
        } catch (error) {
          const isOurs = error instanceof InvalidOptionsError || (error as Error).name === "InvalidArgumentError";
          expect(isOurs, String(error)).toBe(true);
          return;
        }
        for (const number of millisecondsIn(made)) {
          expect(Number.isSafeInteger(number), `${number}`).toBe(true);
          expect(number).toBeGreaterThanOrEqual(0);
          expect(number).toBeLessThanOrEqual(MAX_DURATION_MS);
        }
      }),
      { numRuns: 200 },
    );
  });
});

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

test.each([-1, -0.4, 1e300, MAX_DURATION_MS + 1, `${"9".repeat(400)}d`, "3651d", Number.NaN])("%s is none", (given) =>
  expect(durationMs(given)).toBeUndefined(),
);
