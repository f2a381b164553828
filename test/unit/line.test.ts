/** Those who could sweep and do not: who asks when, whatever the interval and however long the line. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { sweepPatienceMs } from "../../src/recovery/sweeping.ts";
import {
  pauseAfterRunMs,
  pauseInLineMs,
  pauseOfHolderMs,
  pauseToAskMs,
  placesInLine,
  takeoverFromMs,
} from "../../src/services/line.ts";

const checkMs = fc.integer({ min: 20, max: 3_600_000 });
const place = fc.integer({ min: 1, max: 10_000 });
const random = fc.double({ min: 0, max: 1, noNaN: true });

describe("one who stands in line", () => {
  test("has asked again by the time that a sweep may be late, wherever it stands and whatever became of those before it", () => {
    fc.assert(
      fc.property(checkMs, place, fc.double({ min: 0, max: 1e7, noNaN: true }), random, (check, at, agoMs, by) => {
        const pauseMs = pauseInLineMs({ place: at, agoMs }, check, by);
        expect(pauseMs).toBeGreaterThan(0);
        expect(pauseMs).toBeLessThanOrEqual(sweepPatienceMs(check));
      }),
    );
  });

  test("asks before those behind it, and may sweep when it does", () => {
    fc.assert(
      fc.property(checkMs, random, random, (check, sweptAgo, by) => {
        const agoMs = sweptAgo * check;
        const asksAtMs = Array.from(
          { length: placesInLine(check) - 1 },
          (_, n) => agoMs + pauseInLineMs({ place: n + 1, agoMs }, check, by),
        );
        expect(asksAtMs).toEqual(asksAtMs.toSorted((a, b) => a - b));
        for (const ms of asksAtMs) expect(ms).toBeGreaterThan(takeoverFromMs(check));
        expect(asksAtMs[0] ?? 0).toBeLessThanOrEqual(1.25 * check + 0.001);
      }),
    );
  });

  test("asks so seldom that a thousand ask hardly more than a line of twelve, and each of them less than it beats", () => {
    const perSecond = (replicas: number) => {
      let sum = 0;
      for (let at = 1; at < replicas; at++) sum += 1_000 / pauseInLineMs({ place: at, agoMs: 125 }, 250, 0.5);
      return sum;
    };
    expect(perSecond(2)).toBeLessThan(6);
    expect(perSecond(12)).toBeLessThan(16);
    // At default settings each beats once in two seconds. Before there was a line, they asked four times a second each.
    expect(perSecond(1_000)).toBeLessThan(0.8 * 500);
  });
});

test("the one that runs a service begins its runs an interval apart, and rests for half of it at least", () => {
  fc.assert(
    fc.property(checkMs, fc.double({ min: -10, max: 1e6, noNaN: true }), (check, tookMs) => {
      const pauseMs = pauseAfterRunMs({ tookMs, hasFailed: false }, check);
      expect(pauseMs).toBeGreaterThanOrEqual(check / 2);
      expect(pauseMs).toBeLessThanOrEqual(check);
    }),
  );
  expect(pauseAfterRunMs({ tookMs: 40, hasFailed: false }, 250)).toBe(210);
});

test("after a run that failed, the next in line comes before the one that ran it, which does not wait for so long that nobody listened", () => {
  fc.assert(
    fc.property(checkMs, random, (check, by) => {
      const againMs = pauseAfterRunMs({ tookMs: 0, hasFailed: true }, check);
      if (placesInLine(check) > 1) expect(againMs).toBeGreaterThan(pauseInLineMs({ place: 1, agoMs: 0 }, check, by));
      // A gap is two and a half intervals, and the run before began one interval earlier.
      expect(check + againMs).toBeLessThan(2.5 * check);
    }),
  );
});

test("one that has turns, but not the most frequent one, asks as soon as all who stand in line, however long it is until its own are due", () => {
  const dueInMs = fc.double({ min: 0, max: 1e9, noNaN: true });
  fc.assert(
    fc.property(checkMs, place, dueInMs, random, (check, at, due, by) => {
      const held = [{ isRunning: false, wasInVain: false, dueInMs: due, everyMs: 3_600_000 }];
      const how = { everyMs: check, holdMs: 5_000, random: by };
      const standby = { place: at, agoMs: 0 };
      const inLineMs = pauseInLineMs(standby, check, by);
      expect(pauseToAskMs({ held, standby }, how)).toBe(Math.min(inLineMs, due));
      expect(pauseToAskMs({ held: [], standby }, how)).toBe(inLineMs);
      // Whoever has the most frequent one stands in no line.
      expect(pauseToAskMs({ held, standby: undefined }, how)).toBe(due);
    }),
  );
});

describe("one that has turns asks", () => {
  const held = { isRunning: false, wasInVain: false, dueInMs: 200, everyMs: 1_000 };

  test("when the next of them is due", () => {
    expect(pauseOfHolderMs([held, { ...held, dueInMs: 100 }], 5_000)).toBe(100);
    expect(pauseOfHolderMs([{ ...held, dueInMs: -50 }], 5_000)).toBe(0);
  });

  test("in time to go on holding what it is at", () => {
    expect(pauseOfHolderMs([{ ...held, isRunning: true, dueInMs: 0 }], 5_000)).toBeLessThan(5_000 / 2);
  });

  test("after a share of the interval where it asked in vain", () => {
    expect(pauseOfHolderMs([{ ...held, wasInVain: true, dueInMs: -50 }], 5_000)).toBe(250);
  });
});
