import { describe, expect, test } from "vitest";
import type { ClaimedTask } from "../../src/sql/claims.ts";
import { defineTask } from "../../src/task/define-task.ts";
import type { ClaimId, ReplicaId } from "../../src/task/ids.ts";
import { demandOf, NO_DEMAND } from "../../src/worker/demand.ts";
import { checkWork } from "../../src/worker/options.ts";
import { Pace } from "../../src/worker/pace.ts";
import { Reserve } from "../../src/worker/reserve.ts";
import { pauseBeforeRoundMs, reserveFor } from "../../src/worker/round-plan.ts";
import { Slots } from "../../src/worker/slots.ts";

const task = (claimId: number) => ({ claimId: String(claimId) }) as unknown as ClaimedTask;
const lot = (staleAtMs: number, ...claims: number[]) => ({
  tasks: claims.map(task),
  under: "r" as ReplicaId,
  staleAtMs,
});
const claimsOf = (lots: readonly { tasks: readonly ClaimedTask[] }[]) =>
  lots.map(({ tasks }) => tasks.map(({ claimId }) => Number(claimId)));

describe("the reserve", () => {
  test("is begun in the order in which it was claimed", () => {
    const reserve = new Reserve();
    reserve.add(lot(10, 1, 2));
    reserve.add(lot(20));
    reserve.add(lot(20, 3));
    expect(reserve.size).toBe(3);
    expect([1, 2, 3].map(() => reserve.take(2)?.claimId)).toEqual(["1", "2", "3"]);
    expect(reserve.take(2)).toBeUndefined();
    expect(reserve.size).toBe(0);
  });

  test("holds nothing back for long: what is stale is never begun, and is given back, the rest of its lot only", () => {
    const reserve = new Reserve();
    reserve.add(lot(250, 1, 2, 3));
    reserve.add(lot(350, 4));
    expect(reserve.staleAtMs).toBe(250);
    expect(reserve.take(249)?.claimId).toBe("1");
    expect(reserve.take(250)).toBeUndefined();
    expect(reserve.tasks().map(({ claimId }) => claimId)).toEqual(["2", "3", "4"]);
    expect(claimsOf(reserve.takeStale(250))).toEqual([[2, 3]]);
    expect(reserve.staleAtMs).toBe(350);
    expect(reserve.take(250)?.claimId).toBe("4");
    expect(reserve.size).toBe(0);
  });

  test("is given back whole where nothing may begin, and in part where some are no longer ours", () => {
    const reserve = new Reserve();
    reserve.add(lot(10, 1, 2, 3));
    reserve.add(lot(20, 4));
    reserve.take(1);
    expect(claimsOf(reserve.takeThese(new Set(["1", "3", "4"] as ClaimId[])))).toEqual([[3], [4]]);
    expect(reserve.size).toBe(1);
    expect(claimsOf(reserve.takeAll())).toEqual([[2]]);
    expect([reserve.size, reserve.tasks()]).toEqual([0, []]);
  });
});

describe("how many may wait in reserve", () => {
  test("is what ends in a moment, a few for each slot at the most", () => {
    expect(reserveFor(10, 0.01)).toBe(0);
    expect(reserveFor(10, 0.5)).toBe(15);
    expect(reserveFor(10, 1_000)).toBe(36);
    expect(reserveFor(100, 1_000)).toBe(396);
    expect(reserveFor(200, 1_000)).toBe(300);
  });

  test("is none for whoever runs one at a time, and none where two rounds take turns", () => {
    expect(reserveFor(1, 1_000)).toBe(0);
    expect(reserveFor(400, 1_000)).toBe(0);
  });

  test("is asked for together with what is free, in steps of half of it, and not while a look is alone", () => {
    const slots = new Slots(100, new Map());
    const state = {
      ...{
        settings: { ...checkWork([defineTask({ name: "any", run: () => 1 })], { concurrency: 100 }) },
        slots,
        prefetched: 0,
        asked: NO_DEMAND,
      },
      ...{ reserve: 300, reserved: 0, isAlone: false, largestBatch: 1, hasRunners: false },
    };
    expect(demandOf(state)).toMatchObject({ run: 100, reserve: 300 });
    expect(demandOf({ ...state, isAlone: true })).toMatchObject({ run: 100, reserve: 0 });
    expect(demandOf({ ...state, asked: { ...NO_DEMAND, run: 100, reserve: 300 } })).toMatchObject({
      run: 0,
      reserve: 0,
    });
    expect(demandOf({ ...state, asked: { ...NO_DEMAND, run: 100 } })).toMatchObject({ run: 0, reserve: 300 });
    for (let used = 0; used < 100; used++) slots.take("default");
    expect(demandOf({ ...state, reserved: 151 })).toMatchObject({ run: 0, reserve: 0 });
    expect(demandOf({ ...state, reserved: 150 })).toMatchObject({ run: 0, reserve: 150 });
    // It ended quicker before.
    expect(demandOf({ ...state, reserve: 10, reserved: 150 })).toMatchObject({ run: 0, reserve: 0 });
    expect(demandOf({ ...state, largestBatch: 2 })).toMatchObject({ run: 0, reserve: 0 });
  });

  test("lets a round wait for more to end, but not for long", () => {
    const before = { hasBacklog: true, hasReserve: true, ended: 99, brought: 99, sinceReplyMs: 0, usualMs: 6 };
    expect(pauseBeforeRoundMs(before)).toBe(15);
    expect(pauseBeforeRoundMs({ ...before, sinceReplyMs: 15 })).toBe(0);
    expect(pauseBeforeRoundMs({ ...before, hasBacklog: false })).toBe(0);
  });
});

describe("the pace", () => {
  const paceAfter = (forMs: number, durations: readonly number[], slots = 100) => {
    const pace = new Pace(slots, 0);
    for (const durationMs of durations) pace.count(durationMs);
    return pace.perMs(forMs);
  };

  test("is what has ended in the time since it was asked for, and half of it before", () => {
    expect(paceAfter(20, new Array(100).fill(1))).toBe(5);
    expect(paceAfter(10, new Array(100).fill(1))).toBe(5);
    expect(paceAfter(10, [])).toBe(0);
    expect(paceAfter(4, new Array(100).fill(1))).toBe(0);
  });

  test("is no more than the slots can do: long ones that began together end together", () => {
    expect(paceAfter(20, new Array(100).fill(1_000))).toBeCloseTo(0.1);
    expect(reserveFor(100, paceAfter(20, new Array(100).fill(1_000)))).toBe(3);
  });

  test("of handlers that end at once is only what did", () => {
    expect(paceAfter(20, new Array(100).fill(0))).toBe(5);
  });

  test("goes down where nothing ends any more, and is nothing once it has proved wrong", () => {
    const pace = new Pace(100, 0);
    for (let n = 0; n < 100; n++) pace.count(1);
    expect([20, 30, 40, 140].map((nowMs) => pace.perMs(nowMs))).toEqual([5, 2.5, 1.25, 0]);
    for (let n = 0; n < 100; n++) pace.count(1);
    pace.forget(150);
    expect([151, 160].map((nowMs) => pace.perMs(nowMs))).toEqual([0, 0]);
  });
});
