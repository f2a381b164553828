/** What the doctor and the status say of services of the cluster. */
import { describe, expect, test } from "vitest";
import { judgeServices } from "../../src/doctor/check-services.ts";
import { turnRemark } from "../../src/services/turn-remark.ts";
import type { TurnRow } from "../../src/sql/turns.ts";
import { newReplicaId } from "../../src/task/ids.ts";

const WELL: TurnRow = {
  ...{ service: "upkeep", everyMs: 5_000, takenBy: newReplicaId(), takenOn: "web-1", takenAt: new Date(0) },
  ...{ takenAgoMs: 2_000, isRunning: false, endedAt: new Date(0), tookMs: 7, error: null, failures: 0 },
};
const LATE = { ...WELL, takenAgoMs: 60_000 };

describe("of a service of the cluster, the remark is", () => {
  test.each<[string, TurnRow, string | undefined]>([
    ["none where it is run in time", WELL, undefined],
    ["none where a run has taken a minute and goes on", { ...LATE, isRunning: true }, undefined],
    ["that it is overdue", LATE, "not run for 1m, and should be every 5s"],
    ["none where it is overdue and this version does not know it", { ...LATE, service: "gone" }, undefined],
    ["what it failed with", { ...WELL, error: "no room", failures: 1 }, "failed: no room"],
    ["how often", { ...WELL, error: "no room", failures: 3 }, "failed 3 times in a row: no room"],
  ])("%s", (_, turn, remark) => {
    expect(turnRemark(turn)).toBe(remark);
  });
});

describe("the doctor", () => {
  const sweep = { ...WELL, service: "sweep", everyMs: 250, takenAgoMs: 100, tookMs: 3 };
  const stalls = { ...WELL, service: "stalls", everyMs: 1_000, takenAgoMs: 500 };
  const purge = { ...WELL, service: "purge", everyMs: 3_600_000, takenAgoMs: 600_000 };
  const online = [{ id: WELL.takenBy, status: "online" as const }];
  const gone = [{ id: WELL.takenBy, status: "offline" as const }];
  const ago = (takenAgoMs: number) => (turn: TurnRow) => ({ ...turn, takenAgoMs: turn.takenAgoMs + takenAgoMs });

  test("finds all well, and says when each was run", () => {
    expect(judgeServices([sweep, WELL], online)).toMatchObject({
      mark: "good",
      found: "sweep 100ms ago in 3ms; upkeep 2s ago in 7ms",
    });
  });

  test("warns of one that is not run though somebody could run it: a worker, or whoever runs the others", () => {
    const warning = { mark: "warning", found: "upkeep not run for 1m, and should be every 5s (last on web-1)" };
    expect(judgeServices([LATE], online)).toMatchObject(warning);
    expect(judgeServices([sweep, LATE], [])).toMatchObject(warning);
  });

  test("says nothing where nobody could run them, nor that nobody sweeps, which is told by the check of the reaper", () => {
    expect(judgeServices([LATE], [])).toMatchObject({ mark: "skipped" });
    expect(judgeServices([], online)).toMatchObject({ mark: "skipped" });
    expect(judgeServices([{ ...sweep, takenAgoMs: 60_000 }, WELL], online)).toMatchObject({ mark: "good" });
  });

  test.each([
    ["at once, where it has left", 4_000, gone],
    ["a minute later, where it has left", 60_000, gone],
    ["a minute later, where its record is gone too, or it was a process without a worker", 60_000, []],
  ])(
    "warns of nothing after the last of those that could run them, %s: the rare ones are not overdue for long",
    (_, ms, replicas) => {
      const turns = [sweep, stalls, WELL, purge].map(ago(ms));
      expect(judgeServices(turns, replicas)).toMatchObject({
        mark: "skipped",
        found: "not checked: no worker is online to run them",
      });
    },
  );

  test("warns where a process without a worker is there, and fails to run one of them", () => {
    expect(judgeServices([sweep, stalls, LATE, purge], gone)).toMatchObject({ mark: "skipped" });
    const withoutWorker = { takenBy: newReplicaId() };
    const turns = [{ ...sweep, ...withoutWorker }, { ...stalls, ...withoutWorker }, LATE, purge];
    expect(judgeServices(turns, gone)).toMatchObject({ mark: "warning" });
  });

  test("warns of one that failed the last time", () => {
    const failing = { ...WELL, error: "no room", failures: 2 };
    expect(judgeServices([failing], online)).toMatchObject({
      mark: "warning",
      found: "upkeep failed 2 times in a row: no room (last on web-1)",
    });
  });
});
