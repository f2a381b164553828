import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Blamed, blamedFor, type Death, type OwnedTask, recoveryOf } from "../../src/recovery/recovery-action.ts";
import { blameOn, isAtItsLastChance, noBlameOn } from "../../src/recovery/suspicion.ts";
import { crowdOf } from "../support/crowds.ts";

const fresh = { crashes: 0, suspicion: 0 };

describe("of the tasks of a dead process", () => {
  test("one that ran alone is charged", () => {
    expect(blameOn(fresh, crowdOf([fresh]))).toEqual({ share: "charged", presences: 1, standsOut: true });
  });

  test("several are suspected, and none of them stands out", () => {
    const crowd = crowdOf([fresh, fresh, fresh]);
    expect(blameOn(fresh, crowd)).toEqual({ share: "suspected", presences: 1, standsOut: false });
  });

  test("the one that has been at more crashes than any other stands out", () => {
    const old = { crashes: 0, suspicion: 2 };
    const crowd = crowdOf([old, fresh, { crashes: 1, suspicion: 0 }]);
    expect(blameOn(old, crowd)).toEqual({ share: "suspected", presences: 3, standsOut: true });
    expect(blameOn(fresh, crowd)).toMatchObject({ share: "suspected", standsOut: false });
  });

  test("two that have been at as many do not", () => {
    const old = { crashes: 0, suspicion: 2 };
    expect(blameOn(old, crowdOf([old, { crashes: 2, suspicion: 0 }]))).toMatchObject({ standsOut: false });
  });

  test("one is at its last chance when its next crash could convict it", () => {
    expect([0, 1, 2, 3].map((presences) => isAtItsLastChance(presences, 3))).toEqual([false, false, true, true]);
    expect([0, 1].map((presences) => isAtItsLastChance(presences, 1))).toEqual([false, true]);
  });
});

describe("nobody is blamed", () => {
  const death: Death = {
    ...{ replicaId: "r", machineId: undefined, hostname: undefined, because: "session-lost" },
    ...{ silentForMs: undefined, vitals: undefined },
  };
  test.each<[string, Partial<Death>, boolean]>([
    ["for a crash: of course somebody is", {}, false],
    ["for a process that exited: of course somebody is", { because: "exited", exitCode: 3 }, false],
    ["for a shutdown that took too long", { wasDraining: true }, true],
    ["for a notice of preemption, which is a shutdown", { wasDraining: true, because: "silent" }, true],
    ["for a replica that has left", { because: "offline" }, true],
    ["for one that fenced itself or stood still, and is back", { cameBack: true }, true],
    ["for a loop that was blocked for too long: of course somebody is", { because: "loop-blocked" }, false],
    ["for a loop that one of them is known to have blocked", { because: "loop-blocked", isCharged: false }, true],
  ])("%s", (_what, given, blameless) =>
    expect(blamedFor({ ...death, ...given }, 0)).toBe(blameless ? "nobody" : "all"),
  );

  test.each<[string, Partial<Death>, Blamed]>([
    ["but those who told it to stop, for a shutdown that took too long", { wasDraining: true }, "stoppers"],
    ["but those who told it to stop, for a replica that has left", { because: "offline" }, "stoppers"],
    ["for one that is back, whoever told it to stop", { wasDraining: true, cameBack: true }, "nobody"],
  ])("%s", (_what, given, blamed) => expect(blamedFor({ ...death, ...given }, 1)).toBe(blamed));

  test("and then a task is as it was, and is pending again as its definition says", () => {
    const task: OwnedTask = {
      ...{ state: "running", crashes: 2, suspicion: 4, isCancelled: false },
      ...{ onCrash: "retry", retry: undefined, crashBudget: undefined },
    };
    const policy = { requeuesClaimed: true, recoversRunning: true, crashBudget: 3 };
    expect(recoveryOf(task, noBlameOn(task), policy, 0)).toEqual({
      ...{ kind: "again", crashes: 2, delayMs: 2_000, isApart: false },
    });
    expect(recoveryOf({ ...task, onCrash: "requeue" }, noBlameOn(task), policy, 0)).toMatchObject({ delayMs: 0 });
  });
});

/** Workers that take tasks at random under the rules of `admit`, and die of the guilty ones among them. */
describe("in any order of events", () => {
  interface Simulated {
    readonly id: number;
    readonly isGuilty: boolean;
    /** The crashes that it was at, by their number. */
    alone: Set<number>;
    shared: Set<number>;
    isApart: boolean;
    state: "pending" | "running" | "completed" | "quarantined";
    deaths: number;
  }
  const recordOf = (task: Simulated) => ({ crashes: task.alone.size, suspicion: task.shared.size });
  const isSuspect = (task: Simulated) => task.alone.size + task.shared.size > 0;

  function mayTake(task: Simulated, inHand: readonly Simulated[]): boolean {
    if (!isSuspect(task)) return true;
    const suspects = inHand.filter(isSuspect);
    return task.isApart ? suspects.length === 0 : !suspects.some((other) => other.isApart);
  }

  function crash(inHand: readonly Simulated[], number: number, everybody: readonly Simulated[], budget: number): void {
    const crowd = crowdOf(inHand.map(recordOf));
    const blames = inHand.map((task) => ({ task, blame: blameOn(recordOf(task), crowd) }));
    for (const { task, blame } of blames) {
      const action = recoveryOf(
        {
          ...recordOf(task),
          state: "running",
          isCancelled: false,
          onCrash: "requeue",
          retry: undefined,
          crashBudget: budget,
        },
        blame,
        { requeuesClaimed: true, recoversRunning: true, crashBudget: 99 },
        0,
      );
      (blame.share === "charged" ? task.alone : task.shared).add(number);
      task.deaths++;
      task.state = action.kind === "fail" ? "quarantined" : "pending";
      if (action.kind === "again") task.isApart = task.isApart || action.isApart;
    }
    for (const { task } of blames.filter((each) => each.task.state === "quarantined")) {
      const explained = new Set([...task.alone, ...task.shared]);
      for (const other of everybody) {
        if (other === task) continue;
        for (const one of explained) other.shared.delete(one);
        if (!isSuspect(other)) other.isApart = false;
      }
    }
  }

  function play(options: {
    guilty: number;
    innocent: number;
    workers: number;
    slots: number;
    budget: number;
    random: () => number;
  }) {
    const { guilty, innocent, workers, slots, budget, random } = options;
    const tasks = Array.from(
      { length: guilty + innocent },
      (_, id): Simulated => ({
        ...{
          id,
          isGuilty: id < guilty,
          alone: new Set(),
          shared: new Set(),
          isApart: false,
          state: "pending",
          deaths: 0,
        },
      }),
    );
    const hands: Simulated[][] = Array.from({ length: workers }, () => []);
    let crashes = 0;
    let steps = 0;
    for (; tasks.some(({ state }) => state === "pending" || state === "running") && steps < 20_000; steps++) {
      const hand = hands[Math.floor(random() * workers)] as Simulated[];
      // It fills its slots, in any order.
      const waiting = tasks.filter(({ state }) => state === "pending").sort(() => random() - 0.5);
      for (const task of waiting) {
        if (hand.length >= slots || !mayTake(task, hand)) continue;
        task.state = "running";
        hand.push(task);
      }
      if (hand.length === 0) continue;
      if (hand.some(({ isGuilty }) => isGuilty) && random() < 0.5) {
        crash(hand.splice(0), crashes++, tasks, budget);
        continue;
      }
      const ready = hand.filter(({ isGuilty }) => !isGuilty);
      const done = ready[Math.floor(random() * ready.length)];
      if (!done) continue;
      done.state = "completed";
      hand.splice(hand.indexOf(done), 1);
    }
    return { tasks, crashes, steps };
  }

  const worlds = {
    innocent: fc.integer({ min: 0, max: 40 }),
    workers: fc.integer({ min: 1, max: 6 }),
    slots: fc.integer({ min: 1, max: 20 }),
    budget: fc.integer({ min: 1, max: 5 }),
    seed: fc.integer(),
  };

  test("a task that kills every worker is in quarantine after as many deaths as its budget, and no other ever is, or is charged", () => {
    fc.assert(
      fc.property(fc.record(worlds), ({ seed, ...world }) => {
        const { tasks, crashes } = play({ ...world, guilty: 1, random: seeded(seed) });
        const [guilty, ...innocent] = tasks;
        expect(guilty?.state).toBe("quarantined");
        // With a budget of one, a crash among others convicts nobody: it takes a second.
        expect(crashes).toBeLessThanOrEqual(Math.max(2, world.budget));
        for (const task of innocent)
          expect([task.state, task.alone.size, task.shared.size]).toEqual(["completed", 0, 0]);
      }),
      { numRuns: 500 },
    );
  });

  test("several that kill every worker are all found, and everything else completes or, rarely, waits to be redriven", () => {
    let innocents = 0;
    let wrong = 0;
    fc.assert(
      fc.property(fc.record({ ...worlds, guilty: fc.integer({ min: 2, max: 5 }) }), ({ seed, ...world }) => {
        const { tasks, steps } = play({ ...world, random: seeded(seed) });
        expect(steps).toBeLessThan(20_000);
        for (const task of tasks.filter(({ isGuilty }) => isGuilty)) expect(task.state).toBe("quarantined");
        innocents += world.innocent;
        wrong += tasks.filter((task) => !task.isGuilty && task.state === "quarantined").length;
      }),
      { numRuns: 500, seed: 7 },
    );
    expect(wrong / innocents).toBeLessThan(0.02);
  });
});

/** mulberry32 */
function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
