import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Events } from "../../src/events.ts";
import { readChildMessage, readSupervisorMessage } from "../../src/supervisor/messages.ts";
import { Place } from "../../src/supervisor/place.ts";
import { DEFAULT_RESTART, type RestartPolicy, restartDecision, rollOrder } from "../../src/supervisor/restart.ts";

const policy: RestartPolicy = { firstPauseMs: 100, longestPauseMs: 1_000, healthyAfterMs: 5_000, loopAfter: 6 };

describe("a child that ended", () => {
  test("starts again after pauses that double up to the longest, and no more when it is a crash loop", () => {
    const pauses: number[] = [];
    let exitsInARow = 0;
    for (;;) {
      const decision = restartDecision({ exitsInARow, readyForMs: undefined }, policy, 1);
      exitsInARow = decision.exitsInARow;
      if (decision.kind === "crash-loop") break;
      pauses.push(decision.pauseMs);
    }
    expect(pauses).toEqual([100, 200, 400, 800, 1_000]);
    expect(exitsInARow).toBe(6);
  });

  test.each([
    [undefined, 5],
    [0, 5],
    [4_999, 5],
    [5_000, 1],
    [5_001, 1],
  ])("after being ready for %s ms is number %d in a row", (readyForMs, exitsInARow) => {
    expect(restartDecision({ exitsInARow: 4, readyForMs }, policy, 0)).toMatchObject({ kind: "restart", exitsInARow });
  });

  test("never waits longer than the longest pause, nor less than three quarters of the first", () => {
    fc.assert(
      fc.property(fc.nat({ max: 2_000 }), fc.double({ min: 0, max: 1, noNaN: true }), (exitsInARow, random) => {
        const decision = restartDecision(
          { exitsInARow, readyForMs: undefined },
          { ...DEFAULT_RESTART, loopAfter: 10_000 },
          random,
        );
        if (decision.kind !== "restart") throw new Error("no loop yet");
        expect(decision.pauseMs).toBeLessThanOrEqual(DEFAULT_RESTART.longestPauseMs);
        expect(decision.pauseMs).toBeGreaterThanOrEqual(DEFAULT_RESTART.firstPauseMs * 0.75);
      }),
    );
  });
});

test("a place for which no process can be made tries again, and is in a crash loop like any other", async () => {
  const errors: unknown[] = [];
  const looping = new Promise<number>((resolve) => {
    const place = new Place({
      ...{ number: 1, events: new Events(() => {}), leaveWithinMs: 1_000, readyWithinMs: 1_000 },
      policy: { ...policy, firstPauseMs: 1, loopAfter: 3 },
      spawn: () => {
        throw new Error("spawn ENOMEM");
      },
      onError: (error) => errors.push(error),
      onLooping: resolve,
      ...{ report: async () => {}, onWell: () => {}, onSettled: () => {} },
    });
    expect(place.start()).toBeUndefined();
    expect(place.isOver).toBe(false);
  });
  expect(await looping).toBe(3);
  expect(errors).toHaveLength(3);
});

test("empty places are rolled first, then the oldest child first", () => {
  const places = [
    { child: 1, startedAtMs: 30 },
    { child: 2, startedAtMs: undefined },
    { child: 3, startedAtMs: 10 },
    { child: 4, startedAtMs: undefined },
    { child: 5, startedAtMs: 10 },
  ];
  expect(rollOrder(places)).toEqual([2, 4, 3, 5, 1]);
});

describe("messages", () => {
  const replicaId = "0a0b0c0d-0000-4000-8000-000000000000";
  test.each([
    [{ everbeat: "joined", replicaId }, true],
    [{ everbeat: "ready", replicaId }, true],
    [{ everbeat: "refused" }, true],
    [{ everbeat: "ready", replicaId: "x'; drop" }, false],
    [{ everbeat: "ready" }, false],
    [{ some: "handler's own" }, false],
    ["text", false],
    [null, false],
  ])("from a child: %j is ours: %s", (message, isOurs) => {
    expect(readChildMessage(message)).toEqual(isOurs ? message : undefined);
  });

  test.each([
    [{ everbeat: "leave" }, true],
    [{ everbeat: "leave-now" }, true],
    [{ everbeat: "ready", replicaId }, false],
    [undefined, false],
  ])("from a supervisor: %j is ours: %s", (message, isOurs) => {
    expect(readSupervisorMessage(message)).toEqual(isOurs ? message : undefined);
  });
});
