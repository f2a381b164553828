import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Problems } from "../../src/config/problems.ts";
import { checkRecovery, PROFILES, type RecoverySettings } from "../../src/config/recovery-options.ts";
import { heartPlanOf } from "../../src/heart/heart-plan.ts";
import { fenceOn } from "../../src/heart/self-fencing.ts";
import { doubtFromMs, heartLimits, type PromiseOnRecord } from "../../src/recovery/limits.ts";
import { countDying, holdOn } from "../../src/recovery/mass-death.ts";
import {
  causeOf,
  crashError,
  type OwnedTask,
  type RecoveryPolicy,
  recoveryOf,
} from "../../src/recovery/recovery-action.ts";
import { blameOn, crowdAtRunner } from "../../src/recovery/suspicion.ts";
import { type Silence, verdictOn } from "../../src/recovery/verdict.ts";

const settingsOf = (options: unknown) => {
  const problems = new Problems();
  const settings = checkRecovery(options, problems);
  return { settings, problems: problems.list };
};

describe("a verdict", () => {
  const settings: RecoverySettings = {
    ...settingsOf({}).settings,
    ...{ claimerIntervalMs: 50, runnerIntervalMs: 50, staleAfterMs: 100 },
    ...{ claimedDeadAfterMs: 1_000, runningDeadAfterMs: 1_000, sessionGraceMs: 200 },
  };
  const promiseOf = (given: Partial<PromiseOnRecord> = {}): PromiseOnRecord => ({
    ...{ intervalMs: 50, promiseMs: 0, sessionPromiseMs: 0 },
    ...given,
  });
  const verdict = (silence: Partial<Silence>, promise: Partial<PromiseOnRecord> = {}, by = settings) =>
    verdictOn({ silentForMs: 0, ...silence }, heartLimits(promiseOf(promise), by, "running"));

  test.each([
    [99, "fresh"],
    [100, "stale"],
    [101, "stale"],
    [999, "stale"],
    [1_000, "stale"],
    [1_001, "dead"],
  ])("on %d ms of silence is %s", (silentForMs, kind) => expect(verdict({ silentForMs }).kind).toBe(kind));

  test.each([
    [199, "fresh"],
    [200, "fresh"],
    [201, "dead"],
  ])("on a session that has been free for %d ms is %s", (sessionFreeForMs, kind) =>
    expect(verdict({ sessionFreeForMs }).kind).toBe(kind),
  );

  test("does not count sessions where they are not to count", () => {
    expect(verdict({ sessionFreeForMs: 1e9 }, {}, { ...settings, sessionGraceMs: undefined }).kind).toBe("fresh");
  });

  test("is none on one of whom nobody has ever listened, nor where there are no limits", () => {
    expect(verdict({ silentForMs: null, sessionFreeForMs: null }).kind).toBe("fresh");
    const none = { staleFromMs: undefined, deadAfterMs: undefined, sessionGoneAfterMs: undefined };
    expect(verdictOn({ silentForMs: 1e9, sessionFreeForMs: 1e9 }, none).kind).toBe("fresh");
  });

  test("never comes before the heart's own promise and a margin, whatever the thresholds were lowered to", () => {
    const number = fc.integer({ min: 0, max: 100_000 });
    fc.assert(
      fc.property(
        number,
        fc.option(number),
        number,
        number,
        number,
        (silentForMs, sessionFreeForMs, promiseMs, sessionPromiseMs, runningDeadAfterMs) => {
          const given = verdict(
            { silentForMs, sessionFreeForMs },
            { promiseMs, sessionPromiseMs },
            { ...settings, runningDeadAfterMs },
          );
          if (given.kind !== "dead") return;
          if (given.because === "silent") {
            expect(given.beyondMs).toBeGreaterThanOrEqual(promiseMs + runningDeadAfterMs / 10);
            expect(silentForMs).toBeGreaterThan(given.beyondMs);
          } else {
            expect(given.beyondMs).toBeGreaterThanOrEqual(sessionPromiseMs + 200 / 5);
            expect(sessionFreeForMs).toBeGreaterThan(given.beyondMs);
          }
        },
      ),
    );
  });

  test("is fresh in each role where nobody is to be asked about the heart", () => {
    const number = fc.integer({ min: 0, max: 10_000 });
    const anySettings = fc
      .record({ staleAfterMs: number, claimedDeadAfterMs: number, runningDeadAfterMs: number })
      .map((given) => ({ ...settings, ...given }));
    fc.assert(
      fc.property(number, number, number, anySettings, (silentForMs, promiseMs, intervalMs, by) => {
        fc.pre(silentForMs < doubtFromMs(by));
        for (const role of ["claimed", "running"] as const) {
          const limits = heartLimits(promiseOf({ promiseMs, intervalMs }), by, role);
          expect(verdictOn({ silentForMs }, limits).kind).toBe("fresh");
        }
      }),
    );
  });

  test("is no warning before three beats of a heart that beats more seldom than the settings say", () => {
    const slow = { intervalMs: 300, promiseMs: 10_000 };
    expect(verdict({ silentForMs: 899 }, slow).kind).toBe("fresh");
    expect(verdict({ silentForMs: 900 }, slow).kind).toBe("stale");
    // A warning after two beats stays one, for all that beat as its settings say; and a later one is no sooner for anybody.
    expect(verdict({ silentForMs: 100 }, { intervalMs: 50 }).kind).toBe("stale");
    expect(verdict({ silentForMs: 999 }, slow, { ...settings, staleAfterMs: 1_000 }).kind).toBe("fresh");
  });

  test("only gets worse with more silence", () => {
    const rank = { fresh: 0, stale: 1, dead: 2 };
    fc.assert(
      fc.property(fc.nat(10_000), fc.nat(10_000), (silentForMs, more) => {
        const before = verdict({ silentForMs }).kind;
        expect(rank[verdict({ silentForMs: silentForMs + more }).kind]).toBeGreaterThanOrEqual(rank[before]);
      }),
    );
  });
});

describe("a heart's own promise", () => {
  test("is kept with any clock, also one that counts whole seconds, and costs nothing where that is fine enough", () => {
    const ms = fc.integer({ min: 100, max: 3_600_000 });
    fc.assert(
      fc.property(ms, fc.integer({ min: 100, max: 60_000 }), fc.nat(1_000), (thresholdMs, graceMs, resolutionMs) => {
        const { settings } = settingsOf({
          ...{ claimedStaleThreshold: thresholdMs, runningStaleThreshold: thresholdMs, sessionGrace: graceMs },
          ...{ claimerHeartbeatInterval: 50, runnerHeartbeatInterval: 50 },
        });
        const { promise, fenceAfter, stopWithinMs } = heartPlanOf(settings, { resolutionMs });
        // By a clock that is behind by as much as it may be, and to the millisecond that was cut off.
        const spent = (afterMs: number, stopMs: number) => afterMs + resolutionMs + stopMs - 1;
        expect(spent(fenceAfter.unheardMs, stopWithinMs.unheard)).toBeLessThanOrEqual(promise.promiseMs);
        expect(spent(fenceAfter.sessionGoneMs, stopWithinMs["session-gone"])).toBeLessThanOrEqual(
          promise.sessionPromiseMs,
        );
        expect(fenceAfter.sessionGoneMs).toBeGreaterThan(0);
        const exact = heartPlanOf(settings, { resolutionMs: 0 });
        if (resolutionMs <= Math.min(graceMs, thresholdMs) / 10) expect(promise).toEqual(exact.promise);
      }),
    );
  });

  test.each(Object.keys(PROFILES))(
    "in profile %s is kept before anyone may act, with time to stop in between",
    (profile) => {
      const { settings } = settingsOf({ profile, sessionEvidence: true });
      const { promise, promiseAtStart, fenceAfter, stopWithinMs } = heartPlanOf(settings);
      for (const role of ["claimed", "running"] as const) {
        const { deadAfterMs = 0, sessionGoneAfterMs = 0 } = heartLimits(promise, settings, role);
        expect(promise.promiseMs).toBeLessThan(Math.min(deadAfterMs, settings.runningDeadAfterMs));
        expect(promise.promiseMs).toBeGreaterThanOrEqual(promise.intervalMs);
        // With the promise that these settings make, its margin adds nothing to the threshold and to the grace.
        expect(sessionGoneAfterMs).toBe(settings.sessionGraceMs);
        expect(promise.sessionPromiseMs).toBeLessThan(sessionGoneAfterMs);
      }
      // Whichever of the two fences it, it has stopped by both promises: a fenced heart closes its session as well.
      for (const stopMs of Object.values(stopWithinMs)) expect(stopMs).toBeLessThanOrEqual(promise.sessionPromiseMs);
      for (const stopMs of Object.values(stopWithinMs))
        expect(fenceAfter.unheardMs + stopMs).toBeLessThanOrEqual(promise.promiseMs);
      expect(fenceAfter.sessionGoneMs + stopWithinMs["session-gone"]).toBeLessThanOrEqual(promise.sessionPromiseMs);
      expect(fenceAfter.standInUnseenMs + stopWithinMs["session-gone"]).toBeLessThanOrEqual(
        promiseAtStart.sessionPromiseMs,
      );
      expect(promiseAtStart).toEqual({ ...promise, sessionPromiseMs: promiseAtStart.sessionPromiseMs });
    },
  );

  const after = { unheardMs: 1_000, sessionGoneMs: 300, standInUnseenMs: 700 };
  const well = { unheardForMs: 0, sessionGoneForMs: undefined, standInUnseenForMs: undefined, isServerDown: false };
  test("is broken by no acknowledged beat, or by a session that does not come back", () => {
    expect(fenceOn({ ...well, unheardForMs: 999 }, after)).toBeUndefined();
    expect(fenceOn({ ...well, unheardForMs: 1_000 }, after)).toBe("unheard");
    expect(fenceOn({ ...well, sessionGoneForMs: 299 }, after)).toBeUndefined();
    expect(fenceOn({ ...well, sessionGoneForMs: 300 }, after)).toBe("session-gone");
  });

  test("is broken while it starts when nobody has seen for too long the session that stands in for its own", () => {
    expect(fenceOn({ ...well, standInUnseenForMs: 699 }, after)).toBeUndefined();
    expect(fenceOn({ ...well, standInUnseenForMs: 700 }, after)).toBe("session-gone");
    expect(fenceOn({ ...well, standInUnseenForMs: 700, isServerDown: true }, after)).toBeUndefined();
  });

  test("is not broken by a session that is gone because the server itself is down: its next epoch protects it", () => {
    expect(fenceOn({ ...well, unheardForMs: 500, sessionGoneForMs: 500, isServerDown: true }, after)).toBeUndefined();
    expect(fenceOn({ ...well, unheardForMs: 1_000, sessionGoneForMs: 1_000, isServerDown: true }, after)).toBe(
      "unheard",
    );
  });
});

describe("what becomes of a dead owner's task", () => {
  const policy = { requeuesClaimed: true, recoversRunning: true, crashBudget: 3 };
  const task: OwnedTask = {
    ...{ state: "running", crashes: 0, suspicion: 0, isCancelled: false },
    ...{ onCrash: undefined, retry: undefined, crashBudget: undefined },
  };
  const recovery = (given: OwnedTask, by: RecoveryPolicy = policy) =>
    recoveryOf(given, blameOn(given, crowdAtRunner(1)), by, 0);

  test("that was only claimed: back to its place, nothing spent", () => {
    expect(recovery({ ...task, state: "claimed", onCrash: "fail" })).toEqual({ kind: "release" });
  });

  test("that was running: failed, unless its definition says otherwise", () => {
    expect(recovery(task)).toEqual({ kind: "fail", crashes: 1, because: "on-crash" });
    expect(recovery({ ...task, onCrash: "requeue" })).toEqual({
      ...{ kind: "again", crashes: 1, delayMs: 0, isApart: false },
    });
    expect(recovery({ ...task, onCrash: "retry" })).toMatchObject({
      kind: "again",
      crashes: 1,
      delayMs: 1_000,
    });
  });

  test("that was to be cancelled anyway: cancelled", () => {
    expect(recovery({ ...task, isCancelled: true, onCrash: "requeue" })).toEqual({ kind: "cancel" });
  });

  test("that has cost too many workers: into quarantine", () => {
    expect(recovery({ ...task, onCrash: "requeue", crashes: 2 })).toEqual({
      kind: "fail",
      crashes: 3,
      because: "crash-budget",
    });
  });

  test("is left alone where recovery of its kind is switched off", () => {
    const off = { ...policy, requeuesClaimed: false, recoversRunning: false };
    expect(recovery({ ...task, state: "claimed" }, off)).toEqual({ kind: "leave" });
    for (const onCrash of ["fail", "retry", "requeue"] as const)
      expect(recovery({ ...task, onCrash }, off)).toEqual({ kind: "leave" });
  });

  test("is on record with replica, machine, silence and last vitals", () => {
    const death = {
      replicaId: "r",
      machineId: "m",
      hostname: "host-7",
      because: "silent",
      silentForMs: 15_250,
      vitals: { rss: 1 },
    } as const;
    expect(crashError(death, { kind: "fail", crashes: 3, because: "crash-budget" })).toMatchObject({
      ...death,
      code: "POISONED",
      message: expect.stringMatching(
        /on host-7 is dead: its heart fell silent \(silent for 15\.3s\).*part of its effects.*crash budget/,
      ),
    });
  });
});

test.each([
  [{ exitCode: null, signal: "SIGKILL" }, "its process was ended by SIGKILL"],
  [{ exitCode: 3, signal: null }, "its process exited with code 3"],
  [{ exitCode: 0, signal: null }, "its process exited with code 0"],
  [{ exitCode: null, signal: null }, "its process ended"],
])("a death by exit %j is told as such", (exit, words) => {
  expect(causeOf({ because: "exited", ...exit })).toBe(words);
});

describe("the guard against mass death", () => {
  const policy = { share: 0.5, atLeast: 3, holdMs: 60_000 };
  const fleet = { groups: 10, dying: 0, heldForMs: undefined, isConfirmed: false };

  test.each([
    [10, 2, "act"],
    [3, 2, "act"],
    [4, 3, "hold"],
    [10, 5, "act"],
    [10, 6, "hold"],
    [1, 1, "act"],
  ])("of %d machines %d silent: %s", (groups, dying, decision) =>
    expect(holdOn({ ...fleet, groups, dying }, policy)).toBe(decision),
  );

  test("ends at its cap, or when somebody confirms", () => {
    const mass = { ...fleet, dying: 9 };
    expect(holdOn({ ...mass, heldForMs: 60_000 }, policy)).toBe("hold");
    expect(holdOn({ ...mass, heldForMs: 60_001 }, policy)).toBe("act-after-hold");
    expect(holdOn({ ...mass, isConfirmed: true }, policy)).toBe("act-after-hold");
  });

  test("counts a machine as dying when nobody on it is well, and needs to be told only of those in doubt", () => {
    const replica = fc.record({
      machine: fc.constantFrom("a", "b", "c", "d"),
      state: fc.constantFrom("sure", "well", "ill"),
    });
    fc.assert(
      fc.property(fc.array(replica), (fleet) => {
        const machines = new Set(fleet.map(({ machine }) => machine));
        const isWell = (machine: string) => fleet.some((one) => one.machine === machine && one.state !== "ill");
        const doubtful = fleet
          .filter(({ state }) => state !== "sure")
          .map(({ machine, state }) => ({
            ...{ group: machine, groups: machines.size, isWell: state === "well" },
            isGroupWell: fleet.some((one) => one.machine === machine && one.state === "sure"),
          }));
        const { dying, groups: counted } = countDying(doubtful);
        expect(dying).toBe([...machines].filter((machine) => !isWell(machine)).length);
        expect(counted).toBe(doubtful.length > 0 ? machines.size : 0);
      }),
    );
  });
});

describe("the recovery settings", () => {
  test("of the named profiles are the numbers they promise", () => {
    expect(settingsOf({ profile: "replica" }).settings).toMatchObject({
      ...{
        runnerIntervalMs: 10_000,
        runningDeadAfterMs: 60_000,
        checkMs: 30_000,
        purgeEveryMs: 3_600_000,
        purgeAgeMs: 3_600_000,
      },
      sessionGraceMs: undefined,
    });
    expect(settingsOf({ profile: "claimed-and-running" }).settings).toMatchObject({
      ...{
        claimerIntervalMs: 30_000,
        claimedDeadAfterMs: 120_000,
        runnerIntervalMs: 30_000,
        runningDeadAfterMs: 300_000,
      },
      ...{ checkMs: 30_000, historyAgeMs: 86_400_000, requeuesClaimed: true, recoversRunning: true },
    });
    expect(settingsOf({ profile: "cpu-heavy" }).settings).toMatchObject({
      runnerIntervalMs: 60_000,
      runningDeadAfterMs: 300_000,
    });
    expect(settingsOf({ profile: "quick" }).settings).toMatchObject({
      runnerIntervalMs: 10_000,
      runningDeadAfterMs: 30_000,
    });
    for (const profile of Object.keys(PROFILES)) expect(settingsOf({ profile }).problems).toEqual([]);
  });

  test("refuse a threshold below twice its own role's interval, and say what to use", () => {
    expect(settingsOf({ runnerHeartbeatInterval: "30s", runningStaleThreshold: "60s" }).problems).toEqual([]);
    const { problems } = settingsOf({
      runnerHeartbeatInterval: "30s",
      runningStaleThreshold: "30s",
      claimerHeartbeatInterval: "10s",
      claimedStaleThreshold: "19s",
    });
    expect(problems).toHaveLength(2);
    expect(problems.join()).toMatch(
      /claimedStaleThreshold: 19s is less than twice claimerHeartbeatInterval \(10s\); use at least 20s/,
    );
    expect(problems.join()).toMatch(
      /runningStaleThreshold: 30s is less than twice runnerHeartbeatInterval \(30s\); use at least 1m/,
    );
  });

  test("warn after three beats, where nothing else is said, and before a replica is dead", () => {
    // The block that users of claimer and runner heartbeats have, without a profile.
    const block = {
      ...{ autoRequeueStaleClaimed: true, claimedStaleThreshold: 120_000, claimerHeartbeatInterval: 30_000 },
      ...{ autoFailStaleRunning: true, runningStaleThreshold: 300_000, runnerHeartbeatInterval: 30_000 },
      checkInterval: 30_000,
    };
    const { settings, problems } = settingsOf(block);
    expect(problems).toEqual([]);
    expect(settings.staleAfterMs).toBe(90_000);
    // A heart beats for both, so as often as the one that needs it more.
    expect(settingsOf({ ...block, runnerHeartbeatInterval: "10s" }).settings.staleAfterMs).toBe(30_000);
    expect(settingsOf({ ...block, runningStaleThreshold: "1m" }).settings.staleAfterMs).toBe(60_000);
    expect(settingsOf({ runningStaleThreshold: "5s" }).settings.staleAfterMs).toBe(5_000);
    expect(settingsOf({ ...block, warnAfter: "1m" })).toMatchObject({
      settings: { staleAfterMs: 60_000 },
      problems: [],
    });
    for (const [profile, { staleAfterMs }] of Object.entries(PROFILES))
      expect(settingsOf({ profile }).settings.staleAfterMs).toBe(staleAfterMs);
  });

  test("refuse a warning after less than two beats, or after a death, together with all else", () => {
    const beats = { claimerHeartbeatInterval: "30s", runnerHeartbeatInterval: "30s" };
    const thresholds = { claimedStaleThreshold: "2m", runningStaleThreshold: "5m" };
    expect(settingsOf({ ...beats, ...thresholds, warnAfter: "6s" }).problems).toEqual([
      "recovery.warnAfter: 6s is less than two beats (a heart beats every 30s); use at least 1m, or leave it out",
    ]);
    expect(settingsOf({ ...beats, ...thresholds, warnAfter: "6m" }).problems).toEqual([
      "recovery.warnAfter: 6m is more than runningStaleThreshold (5m), after which a replica is dead; use less, or leave it out",
    ]);
    expect(settingsOf({ ...beats, runningStaleThreshold: "59s", warnAfter: "58s" }).problems).toHaveLength(3);
  });

  test("refuse everything that is wrong together, with the nearest key", () => {
    const { problems } = settingsOf({
      autoFailStaleRuning: true,
      checkInterval: "soon",
      massDeath: { share: 2, hold: -1 },
      profile: "fastest",
      crashBudget: 0,
    });
    expect(problems).toHaveLength(6);
    expect(problems.join()).toContain('did you mean "autoFailStaleRunning"?');
  });

  test("can switch session evidence on and off in any profile", () => {
    expect(settingsOf({ profile: "replica", sessionEvidence: true }).settings.sessionGraceMs).toBe(1_000);
    expect(settingsOf({ sessionEvidence: false }).settings.sessionGraceMs).toBeUndefined();
  });
});
