import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { ClaimedTask } from "../../src/sql/claims.ts";
import { type AnyTask, defineBatchTask, defineTask } from "../../src/task/define-task.ts";
import { type LookMade, pauseWhileHeldUpMs, phaseAfter } from "../../src/worker/after-look.ts";
import { afterEnds, demandOf, NO_DEMAND, onlyFollowing } from "../../src/worker/demand.ts";
import type { Execution } from "../../src/worker/execution.ts";
import { Hand } from "../../src/worker/hand.ts";
import { checkWork } from "../../src/worker/options.ts";
import {
  type BeforeRound,
  howManyFit,
  largestRound,
  pauseBeforeRoundMs,
  secondRoundFrom,
} from "../../src/worker/round-plan.ts";
import { SearchCursors } from "../../src/worker/search-cursors.ts";
import { Slots } from "../../src/worker/slots.ts";

describe("the demand for tasks", () => {
  const task = defineTask({ name: "t", run: () => 1 });
  const settings = checkWork([task], { concurrency: 10, queues: { a: {}, b: { concurrency: 2 } } });

  test("is never more than free slots and the stock ahead, and respects each queue's limit", () => {
    fc.assert(
      fc.property(
        fc.nat(12),
        fc.nat(1_000),
        fc.nat(100),
        fc.nat(10),
        fc.integer({ min: 1, max: 5 }),
        (used, prefetched, ahead, run, largestBatch) => {
          const slots = new Slots(10, settings.queueLimits);
          for (let taken = 0; taken < used; taken++) slots.take("a");
          const free = Math.max(0, 10 - used - run);
          const state = {
            slots,
            prefetched,
            asked: { ...NO_DEMAND, run },
            ...{ reserve: 0, reserved: 0, isAlone: false },
            largestBatch,
            hasRunners: false,
          };
          const demand = demandOf({ settings: { ...settings, prefetch: ahead }, ...state });
          expect(demand.run).toBeGreaterThanOrEqual(0);
          expect(demand.prefetch).toBeGreaterThanOrEqual(0);
          expect(demand.run).toBeLessThanOrEqual(free);
          expect(prefetched + demand.prefetch).toBeLessThanOrEqual(Math.max(prefetched, ahead + free * largestBatch));
          expect(demand.room?.[1] ?? 0).toBeLessThanOrEqual(2);
        },
      ),
    );
  });

  test("asks for half of many slots at a time, where nothing waits: two rounds take turns", () => {
    const state = {
      settings: { ...settings, concurrency: 1_000 },
      slots: new Slots(1_000, new Map()),
      prefetched: 0,
      ...{ reserve: 0, reserved: 0, isAlone: false },
      largestBatch: 1,
      hasRunners: false,
    };
    const first = demandOf({ ...state, asked: NO_DEMAND });
    expect(first).toMatchObject({ run: 500, prefetch: 0 });
    expect(demandOf({ ...state, asked: first })).toMatchObject({ run: 500 });
    expect(demandOf({ ...state, asked: { ...NO_DEMAND, run: 1_000 } })).toMatchObject({ run: 0 });
    expect(demandOf({ ...state, asked: NO_DEMAND, isAlone: true })).toMatchObject({ run: 1_000 });
  });

  test("asks for no more than may follow those that ended, where nothing else was left", () => {
    const room = { run: 99, reserve: 0, prefetch: 0, room: undefined };
    expect(afterEnds(room, 1)).toEqual({ ...room, run: 1 });
    expect(afterEnds(room, 200)).toEqual(room);
    // Nothing has ended: a look for whatever there may be.
    expect(afterEnds(room, 0)).toEqual(room);
  });

  test("is for no more than may follow, ahead or at once, where nothing is looked for", () => {
    const room = { run: 3, reserve: 0, prefetch: 5, room: undefined };
    expect(onlyFollowing(room, 1)).toEqual({ ...room, run: 1, prefetch: 0 });
    expect(onlyFollowing(room, 5)).toEqual({ ...room, prefetch: 2 });
  });
});

describe("after a look", () => {
  const [keyed, plain] = [{ exclusiveKey: "k" }, { exclusiveKey: null }];
  const look: LookMade = {
    ...{ search: new SearchCursors().whereLeft(), startedMs: 0, asked: 2 },
    ...{ isAfterEnds: false, isFollowing: false, isSettling: false, hasMore: false, hasMet: false },
  };

  test("that found as many as it asked for, there may be more, unless they only followed their keys", () => {
    expect(phaseAfter("waking", look, [keyed])).toBe("settling");
    expect(phaseAfter("waking", look, [keyed, keyed])).toBe("looking");
    expect(phaseAfter("settling", { ...look, isAfterEnds: true }, [keyed, keyed])).toBe("settling");
    expect(phaseAfter("settling", { ...look, isAfterEnds: true }, [keyed, plain])).toBe("looking");
  });

  test("that has not seen everything, another follows, alone", () => {
    expect(phaseAfter("looking", { ...look, hasMore: true }, [keyed])).toBe("waking");
    expect(phaseAfter("asleep", { ...look, isAfterEnds: true, isFollowing: true, hasMore: true }, [])).toBe("waking");
  });

  test("after a look that was held up there is another before long, then more and more seldom", () => {
    expect([1, 2, 3, 20].map(pauseWhileHeldUpMs)).toEqual([50, 100, 200, 1_000]);
  });

  test("that found nothing when it had asked to be told, it sleeps, unless it was told", () => {
    expect(phaseAfter("settling", { ...look, isSettling: true }, [])).toBe("asleep");
    expect(phaseAfter("waking", { ...look, isSettling: true }, [])).toBe("waking");
  });

  test("in its sleep it sleeps on, whatever it was that followed", () => {
    const following = { ...look, isAfterEnds: true, isFollowing: true };
    expect(phaseAfter("asleep", following, [])).toBe("asleep");
    expect(phaseAfter("asleep", following, [keyed, keyed])).toBe("asleep");
    expect(phaseAfter("asleep", following, [keyed, plain])).toBe("waking");
    expect(phaseAfter("looking", following, [])).toBe("looking");
  });
});

describe("rounds", () => {
  test("carry as many outcomes as fit into one statement, by number and by length, and at least one", () => {
    const ended = (count: number, length: number) =>
      new Array(count).fill({ outcome: { resultJson: "x".repeat(length) } });
    expect(howManyFit(ended(10, 4))).toBe(10);
    expect(howManyFit(ended(5_000, 4))).toBe(1_000);
    expect(howManyFit(ended(100, 1_048_576))).toBe(8);
    expect(howManyFit(ended(3, 20 * 1_048_576))).toBe(1);
    expect(howManyFit(new Array(3).fill({ outcome: {} }))).toBe(3);
    expect(howManyFit([])).toBe(0);
  });

  test("take all slots at once where half of them are not worth a round, and a second one is not begun then", () => {
    expect([1, 10, 100, 398].map(largestRound)).toEqual([1, 10, 100, 398]);
    expect([400, 1_001].map(largestRound)).toEqual([200, 501]);
    expect([1, 100, 400, 1_000].map(secondRoundFrom)).toEqual([200, 200, 200, 250]);
  });

  const before: BeforeRound = {
    hasBacklog: true,
    hasReserve: false,
    ended: 1,
    brought: 99,
    sinceReplyMs: 0,
    usualMs: 6,
  };

  test("wait for more to end while there is a backlog, for half of what one takes and never for long", () => {
    expect(pauseBeforeRoundMs(before)).toBe(3);
    expect(pauseBeforeRoundMs({ ...before, sinceReplyMs: 1 })).toBe(2);
    expect(pauseBeforeRoundMs({ ...before, usualMs: 1_000 })).toBe(5);
  });

  test("wait for nothing where somebody may be waiting, where as many have ended, or where the last reply was a while ago", () => {
    expect(pauseBeforeRoundMs({ ...before, hasBacklog: false })).toBe(0);
    expect(pauseBeforeRoundMs({ ...before, ended: 99 })).toBe(0);
    expect(pauseBeforeRoundMs({ ...before, brought: 0, ended: 0 })).toBe(0);
    expect(pauseBeforeRoundMs({ ...before, sinceReplyMs: 3 })).toBe(0);
    expect(pauseBeforeRoundMs({ ...before, usualMs: 1 })).toBe(0);
  });
});

describe("the hand", () => {
  const single = defineTask({ name: "single", run: () => 1 });
  const batch = defineBatchTask({ name: "batch", batchSize: 3, run: async (items) => items.map(() => 1) });
  const claimed = (claimId: number, name = "single", queue = "default") =>
    ({ claimId: String(claimId), name, queue }) as unknown as ClaimedTask;
  const handWith = (total: number, limits = new Map<string, number>()) => {
    const slots = new Slots(total, limits);
    return { slots, hand: new Hand(new Map<string, AnyTask>([single, batch].map((task) => [task.name, task])), slots) };
  };

  test("starts in order, as many as there are slots", () => {
    const { hand, slots } = handWith(2);
    hand.addPrefetched([claimed(1), claimed(2), claimed(3)], 0);
    expect(hand.takeStartable().map((group) => group.members[0]?.claimId)).toEqual(["1", "2"]);
    expect(hand.takeStartable()).toEqual([]);
    slots.give("default");
    expect(hand.takeStartable().map((group) => group.members[0]?.claimId)).toEqual(["3"]);
    expect(hand.claims().map(({ claimId }) => claimId)).toEqual(["1", "2", "3"]);
  });

  test("counts for its heart those whose handlers are at work, and not those whose outcome is still to be written", () => {
    const count = { value: 0 };
    const hand = new Hand(new Map(), new Slots(2, new Map()), count);
    const executions = [1, 2].map((id) => ({ claimed: claimed(id) }) as unknown as Execution);
    for (const execution of executions) hand.begin(execution);
    expect(count.value).toBe(2);
    hand.finishing();
    expect(count.value).toBe(1);
    hand.finished(executions[0] as Execution);
    expect(count.value).toBe(1);
    hand.finishing();
    expect(count.value).toBe(0);
  });

  test("passes over a queue that is full to one that is not", () => {
    const { hand } = handWith(5, new Map([["a", 1]]));
    hand.addPrefetched([claimed(1, "single", "a"), claimed(2, "single", "a"), claimed(3, "single", "b")], 0);
    expect(hand.takeStartable().map((group) => group.members[0]?.claimId)).toEqual(["1", "3"]);
  });

  test("lets the members of a batch share a slot, up to its size", () => {
    const { hand, slots } = handWith(2);
    hand.addPrefetched(
      [1, 2, 3, 4, 5].map((id) => claimed(id, "batch")),
      0,
    );
    expect(hand.takeStartable().map((group) => group.members.length)).toEqual([3, 2]);
    expect(slots.free).toBe(0);
  });

  test("gives back what has waited too long, and only that", () => {
    const { hand } = handWith(0);
    hand.addPrefetched([claimed(1)], 100);
    hand.addPrefetched([claimed(2)], 200);
    expect(hand.takePrefetched(150)).toEqual([claimed(1)]);
    expect(hand.takePrefetched()).toEqual([claimed(2)]);
    expect(hand.isEmpty).toBe(true);
  });
});

describe("search cursors", () => {
  const task = { taskId: "t" } as unknown as ClaimedTask;
  const cursor = { laneId: "1", runAt: "now", taskId: task.taskId };
  const found = (claimed: ClaimedTask[], nowMs: number, tookMs = 1) => ({
    asked: 2,
    claimed,
    cursors: claimed.length > 0 ? [cursor] : [],
    seenUpTo: undefined as string | undefined,
    hasMore: false,
    isCutShort: false,
    isHeldUp: false,
    lockedQueue: undefined,
    isUnarmed: false,
    hasMet: false,
    tookMs,
    nowMs,
  });

  test("begin with a full look, then go on from where the last search ended", () => {
    const cursors = new SearchCursors();
    const first = cursors.begin(0);
    expect(first.isFullLook).toBe(true);
    cursors.end(first, found([task, task], 0));
    expect(cursors.begin(1)).toMatchObject({ isFullLook: false, cursors: [cursor] });
  });

  test("ration full looks by what they cost", () => {
    const cursors = new SearchCursors();
    cursors.end(cursors.begin(0), found([task, task], 0, 100));
    cursors.end(cursors.begin(1), found([task], 1));
    expect(cursors.begin(1_999).isFullLook).toBe(false);
    expect(cursors.begin(2_000).isFullLook).toBe(true);
  });

  test("ration them no less after one that claimed nothing for want of a slot", () => {
    const cursors = new SearchCursors();
    cursors.end(cursors.begin(0), found([task, task], 0, 100));
    cursors.end(cursors.begin(1), { ...found([], 1), hasMet: true });
    expect(cursors.msUntilFullLook(1)).toBe(1_999);
    cursors.end(cursors.begin(1), found([], 1));
    expect(cursors.msUntilFullLook(1)).toBe(99);
  });

  test("go on to the end where a search was cut short, before they begin again, and count all of it as one look", () => {
    const cursors = new SearchCursors();
    const short = { isCutShort: true, cursors: [cursor] };
    cursors.end(cursors.begin(0), { ...found([], 0, 40), ...short });
    cursors.wantFullLook();
    const second = cursors.begin(5_000);
    expect(second).toMatchObject({ isFullLook: false, cursors: [cursor] });
    cursors.end(second, { ...found([], 5_000, 40), ...short });
    cursors.end(cursors.begin(5_001), found([], 5_040, 20));
    expect(cursors.msUntilFullLook(5_040)).toBe(100);
    expect(cursors.begin(5_140).isFullLook).toBe(true);
  });

  test("want no further full look after one that found everything", () => {
    const cursors = new SearchCursors();
    cursors.end(cursors.begin(0), found([task], 0));
    expect(cursors.msUntilFullLook(0)).toBeUndefined();
    cursors.end(cursors.begin(5), found([], 5));
    expect(cursors.msUntilFullLook(5)).toBeUndefined();
    cursors.wantFullLook();
    expect(cursors.msUntilFullLook(5)).toBe(15);
    expect(cursors.begin(20).isFullLook).toBe(true);
  });

  test("go back with a full look to where everything was seen, and drop what says less", () => {
    const cursors = new SearchCursors();
    cursors.end(cursors.begin(0), found([task], 0));
    cursors.wantFullLook();
    const second = cursors.begin(5_000);
    expect(second).toMatchObject({ isFullLook: true, seenUpTo: undefined });
    cursors.end(second, { ...found([], 5_000), seenUpTo: "lately" });
    expect(cursors.begin(5_001)).toMatchObject({ cursors: [], seenUpTo: "lately" });
  });

  test("keep what a search from the cursors says of everything to themselves: it has not seen what lies before them", () => {
    const cursors = new SearchCursors();
    cursors.end(cursors.begin(0), found([task], 0));
    cursors.end(cursors.begin(1), { ...found([], 1), seenUpTo: "lately" });
    expect(cursors.begin(2).seenUpTo).toBeUndefined();
  });

  test("ask now and then for what was overlooked, and begin the next search there", () => {
    const cursors = new SearchCursors();
    expect(cursors.beginDeepLook(0)).toBeUndefined();
    cursors.end(cursors.begin(0), { ...found([], 0), seenUpTo: "lately" });
    expect(cursors.msUntilDeepLook(0)).toBeUndefined();
    cursors.wantFullLook();
    expect(cursors.beginDeepLook(1)).toBe("lately");
    cursors.endDeepLook({ overlooked: [cursor], tookMs: 100, nowMs: 101 });
    expect(cursors.begin(102)).toMatchObject({ cursors: [cursor], seenUpTo: "lately" });
    expect(cursors.begin(103).cursors).toEqual([]);
    cursors.wantFullLook();
    expect(cursors.msUntilDeepLook(101)).toBe(5_000);
  });

  test("ask one thing at a time, and again for what could not be answered", () => {
    const cursors = new SearchCursors();
    cursors.end(cursors.begin(0), { ...found([], 0), seenUpTo: "lately" });
    cursors.wantFullLook();
    expect(cursors.beginDeepLook(1)).toBe("lately");
    // Tasks flow on, and each search wants another look.
    cursors.end(cursors.begin(2), found([task, task], 2));
    expect(cursors.msUntilDeepLook(5_000)).toBeUndefined();
    expect(cursors.beginDeepLook(5_000)).toBeUndefined();
    cursors.endDeepLook({ overlooked: undefined, tookMs: 10, nowMs: 6_000 });
    expect(cursors.msUntilDeepLook(6_000)).toBe(1_000);
    expect(cursors.beginDeepLook(7_000)).toBe("lately");
  });

  test("keep what was overlooked in lanes that a search did not come to, until one does", () => {
    const cursors = new SearchCursors();
    const other = { ...cursor, laneId: "another" };
    cursors.end(cursors.begin(0), { ...found([], 0), seenUpTo: "lately" });
    cursors.wantFullLook();
    cursors.beginDeepLook(1);
    cursors.endDeepLook({ overlooked: [cursor, other], tookMs: 1, nowMs: 2 });
    const full = cursors.begin(3);
    expect(full.cursors).toEqual([cursor, other]);
    cursors.end(full, found([task, task], 3));
    const next = cursors.begin(4);
    expect(next.cursors).toContainEqual(other);
    // With room to spare it has come to all of them.
    cursors.end(next, found([task], 4));
    expect(cursors.begin(5).cursors).not.toContainEqual(other);
  });

  test("do not learn from a search what was forgotten while it was under way", () => {
    const cursors = new SearchCursors();
    const search = cursors.begin(0);
    cursors.forget();
    cursors.end(search, { ...found([task], 0), seenUpTo: "lately" });
    expect(cursors.begin(1)).toMatchObject({ cursors: [], seenUpTo: undefined });
  });

  test("are forgotten when something was put in before them", () => {
    const cursors = new SearchCursors();
    cursors.end(cursors.begin(0), found([task, task], 0));
    cursors.forget();
    expect(cursors.begin(1).isFullLook).toBe(true);
  });
});

describe("the worker's options", () => {
  const task = defineTask({ name: "t", run: () => 1 });
  test("are refused together, with the nearest key", () => {
    const check = () =>
      checkWork([task, task, {} as AnyTask], { concurency: 5, queues: [], prefetch: -1, middleware: [1] } as never);
    expect(check).toThrow(/did you mean "concurrency"\?/);
    expect(check).toThrow(/queues: must name at least one queue/);
    expect(check).toThrow(/prefetch/);
    expect(check).toThrow(/tasks\[1\]: there are two tasks named "t"/);
    expect(check).toThrow(/tasks\[2\]: must be made by defineTask/);
    expect(check).toThrow(/middleware: must be a list of functions/);
  });

  test("need at least one task", () => expect(() => checkWork([], {})).toThrow(/at least one task/));
});
