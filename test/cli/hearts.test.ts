/** How hearts and reapers are judged for people: the parts that need no database. */
import { describe, expect, test } from "vitest";
import { heartWords, vitalsWords } from "../../src/cli/heart-words.ts";
import { recoveryOptions } from "../../src/cli/recovery-options.ts";
import { Problems } from "../../src/config/problems.ts";
import { checkRecovery } from "../../src/config/recovery-options.ts";
import { judgeHearts } from "../../src/doctor/check-hearts.ts";
import { judgeReaper } from "../../src/doctor/check-reaper.ts";
import { judgeSwitches } from "../../src/doctor/check-recovery.ts";
import { heartStateOf } from "../../src/recovery/heart-state.ts";
import type { ReplicaSettings } from "../../src/sql/fleet-settings.ts";
import type { Listening } from "../../src/sql/recovery.ts";
import type { ReplicaRow } from "../../src/sql/replicas.ts";
import type { ReplicaId } from "../../src/task/ids.ts";

const settingsOf = (options: unknown = {}) => checkRecovery(options, new Problems());
const settings = settingsOf();
const at = new Date("2026-01-01T00:00:00Z");
const replica: ReplicaRow = {
  ...{ id: "r" as ReplicaId, hostname: "host-7", pid: 42, version: "1", status: "online", machineId: "m" },
  unheardSince: null,
  ...{ startedAt: at, seenAt: at, silentForMs: 300, hasSession: true, holdsSession: true, sessionFreeForMs: null },
  ...{
    promiseMs: 13_500,
    sessionPromiseMs: 800,
    intervalMs: 2_000,
    diedAt: null,
    death: null,
    tasks: [],
    queues: null,
  },
  ...{ claimed: 0, running: 0, vitals: { rss: 1_048_576, memoryLimit: 10_485_760, loopP99Ms: 21.4, cpu: 0.24 } },
};

describe("a replica's heart is shown as", () => {
  test.each<[Partial<ReplicaRow>, string, RegExp]>([
    [{}, "fresh", /^fresh$/],
    [{ hasSession: false, holdsSession: false }, "fresh", /without a session/],
    [{ vitals: { blockedForMs: 60_000 } }, "blocked", /blocked for 1m/],
    [{ silentForMs: 5_999 }, "fresh", /fresh/],
    [{ silentForMs: 6_000 }, "stale", /^stale$/],
    [{ silentForMs: 15_000 }, "stale", /stale/],
    [{ silentForMs: 15_001 }, "dying", /not declared yet/],
    // It beats every 30 s, and its own thresholds are two minutes and more.
    [{ silentForMs: 89_999, intervalMs: 30_000, promiseMs: 108_000 }, "fresh", /fresh/],
    [{ silentForMs: 90_000, intervalMs: 30_000, promiseMs: 108_000 }, "stale", /stale/],
    [{ silentForMs: 109_501, intervalMs: 30_000, promiseMs: 108_000 }, "dying", /not declared yet/],
    [{ sessionFreeForMs: 400 }, "session-lost", /gone for 400ms/],
    [{ holdsSession: false }, "session-lost", /session gone/],
    [{ sessionFreeForMs: 1_001 }, "dying", /not declared yet/],
    [{ silentForMs: null }, "unheard", /nobody listens/],
    [{ unheardSince: at }, "unheard", /nobody listens/],
    [{ status: "dead", death: { because: "session-lost" } }, "dead", /its session ended/],
    [{ status: "dead", death: { because: "silent" } }, "dead", /it fell silent/],
    [{ status: "dead", death: { because: "exited", signal: "SIGKILL" } }, "dead", /^its process was ended by SIGKILL$/],
    [{ status: "offline" }, "offline", /^$/],
  ])("%j: %s", (given, state, words) => {
    const heart = heartStateOf({ ...replica, ...given }, settings);
    expect(heart).toBe(state);
    expect(heartWords({ ...replica, ...given, heart }, settings)).toMatch(words);
  });

  test("fresh, whatever its session, where sessions do not count", () => {
    const off = settingsOf({ sessionEvidence: false });
    expect(heartStateOf({ ...replica, holdsSession: false, sessionFreeForMs: 9_000 }, off)).toBe("fresh");
  });

  test("with its last vitals", () => {
    expect(vitalsWords(replica)).toBe("1 of 10 MiB, loop p99 21 ms, cpu 0.2");
    expect(vitalsWords({ ...replica, status: "offline" })).toBe("");
  });
});

describe("the doctor judges", () => {
  const listening: Listening = {
    ...{ hearingSince: at, sweptAt: at, sweptBy: null, sweepMs: 4, sweptAgoMs: 200, holds: [] },
  } as Listening;
  const online = { status: "online", claimed: 0, running: 0 } as const;
  const hold = (source: string, counted: string) => ({ source, counted, since: at, isConfirmed: false });

  test.each<[string, Parameters<typeof judgeReaper>, string, RegExp]>([
    ["a sweep of late", [listening, [online], settings], "good", /200ms ago and took 4ms \(one every 250ms\)/],
    [
      "a hold",
      [{ ...listening, holds: [hold("hearts", "machines")] }, [online], settings],
      "warning",
      /\(hearts\) is held: too many machines/,
    ],
    [
      "the hold of another source",
      [{ ...listening, holds: [hold("imports", "owners")] }, [online], settings],
      ...(["warning", /\(imports\) is held: too many owners/] as const),
    ],
    ["a sweep long ago", [{ ...listening, sweptAgoMs: 3_001 }, [online], settings], "wrong", /though 1 replica is/],
    [
      "the same at long intervals",
      [{ ...listening, sweptAgoMs: 3_001 }, [online], settingsOf({ profile: "quick" })],
      "good",
      /./,
    ],
    [
      "no sweep ever",
      [undefined, [online, online], settings],
      "wrong",
      /nobody has ever listened, though 2 replicas are/,
    ],
    ["nobody there", [undefined, [], undefined], "skipped", /no worker is online/],
    [
      "tasks of the gone",
      [undefined, [{ status: "dead", claimed: 1, running: 2 }], settings],
      "wrong",
      /3 tasks are held/,
    ],
  ])("%s", (_what, given, mark, found) => {
    const finding = judgeReaper(...given);
    expect(finding).toMatchObject({ check: "reaper", mark });
    expect(finding.found).toMatch(found);
  });

  const one = (options: unknown = {}): ReplicaSettings => ({
    ...{ replicaId: "r" as ReplicaId, hostname: "h", hasSwept: true, settings: settingsOf(options) },
  });
  test.each<[string, ReplicaSettings[], string, RegExp]>([
    ["no settings", [], "skipped", /no worker/],
    ["switches that are on", [one(), one()], "good", /profile "fast".*more than 15s/],
    ["thresholds apart", [one({ profile: "claimed-and-running" })], "good", /2m \(claimed\) or 5m \(running\)/],
    [
      "a switch that is off",
      [one(), one({ autoFailStaleRunning: false })],
      "warning",
      /switched off: autoFailStaleRunning;/,
    ],
    ["settings that differ", [one(), one({ profile: "quick" })], "warning", /different recovery settings/],
  ])("%s", (_what, fleet, mark, found) => {
    const finding = judgeSwitches(fleet);
    expect(finding).toMatchObject({ check: "recovery", mark });
    expect(finding.found).toMatch(found);
  });

  test.each<[string, ReplicaRow[], string, RegExp]>([
    ["no hearts", [{ ...replica, status: "dead" }], "skipped", /no worker/],
    [
      "hearts that are heard",
      [replica, replica],
      "good",
      /all 2 hearts are heard.*within 1\.6s by its session.*15\.3s/,
    ],
    ["one that is blocked", [{ ...replica, vitals: { blockedForMs: 9_000 } }], "good", /heard/],
    ["one that is not heard", [replica, { ...replica, silentForMs: 9_000 }], "warning", /1 of 2 hearts is not heard/],
    ["one without a session", [{ ...replica, hasSession: false, holdsSession: false }], "warning", /without a session/],
  ])("%s", (_what, replicas, mark, found) => {
    const finding = judgeHearts(replicas, settings);
    expect(finding).toMatchObject({ check: "hearts", mark });
    expect(finding.found).toMatch(found);
  });
});

test("recovery settings on the command line are those of the API", () => {
  expect(recoveryOptions("quick")).toEqual({ profile: "quick" });
  expect(recoveryOptions("profile=replica, checkInterval=10s,crashBudget=5,autoFailStaleRunning=false")).toEqual({
    ...{ profile: "replica", checkInterval: "10s", crashBudget: 5, autoFailStaleRunning: false },
  });
  expect(recoveryOptions("massDeath.share=0.8,massDeath.hold=5s")).toEqual({ massDeath: { share: 0.8, hold: "5s" } });
});
