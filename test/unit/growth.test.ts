/** Whose growth filled a limit that several processes share. */
import { describe, expect, test } from "vitest";
import { type GrowthLook, GrowthWatch, grewMost, readOwnMemory } from "../../src/heart/growth.ts";

const KILLED = { limit: 1_000, kills: 6 };
const looks = (...each: readonly [used: number, own: number][]): GrowthLook[] =>
  each.map(([used, own]) => ({ used, own, kills: 5 }));

describe("a process that was killed for a limit that it shares had grown most", () => {
  test.each<[string, GrowthLook[], number, boolean]>([
    ["it grew from look to look, and the others did not", looks([400, 200], [600, 400], [900, 700]), 200, true],
    ["others grew from look to look, and it did not", looks([400, 300], [600, 300], [900, 300]), 700, false],
    ["both grew, and the others more", looks([400, 200], [800, 350]), 600, false],
    ["both grew, and it more", looks([400, 200], [800, 450]), 400, true],
    [
      "it took what it needs a second ago, and others fill the rest",
      looks([300, 100], [600, 400], [600, 400], [750, 400], [900, 400]),
      600,
      false,
    ],
    ["it takes and gives back a little all the time", looks([970, 300], [985, 315]), 690, false],
    ["it grew by less than the others since the last look", looks([500, 300], [500, 300]), 600, false],
    ["it took all at once since the last look", looks([300, 100], [300, 100]), 200, true],
    ["it took all at once beside others that grew a little", looks([300, 100]), 300, true],
    ["nobody has looked at it", [], 100, false],
  ])("%s", (_, seen, used, expected) => {
    expect(grewMost(seen, { ...KILLED, used })).toBe(expected);
  });

  test("is not concluded from what is missing where several were killed, or the kernel counts none", () => {
    for (const kills of [5, 7])
      expect(grewMost(looks([300, 100], [300, 100]), { limit: 1_000, kills, used: 200 })).toBe(false);
  });
});

describe("what a watch of growth tells", () => {
  test("is about the last two seconds, and about the one that ended", () => {
    let [used, kills] = [100, 0];
    const own = new Map([
      [1, 50],
      [2, 50],
    ]);
    const watch = new GrowthWatch(
      () => [...own.keys()],
      () => ({ used, limit: 1_000, kills }),
      (pid) => own.get(pid),
    );
    const grow = (pid: number, by: number) => {
      own.set(pid, (own.get(pid) ?? 0) + by);
      used += by;
      watch.look();
    };
    watch.look();
    grow(1, 300);
    for (let look = 0; look < 6; look++) watch.look();
    for (let look = 0; look < 3; look++) grow(2, 200);
    kills = 1;
    used -= own.get(1) ?? 0;
    own.delete(1);
    expect(watch.sign(1)).toEqual({ used: 1_000, limit: 1_000, kills: 1, grewMost: false });
    expect(watch.sign(2)).toMatchObject({ grewMost: true });
    expect(watch.sign(3)).toMatchObject({ grewMost: true });
    kills = 2;
    expect(watch.sign(3)).toMatchObject({ grewMost: false });
    expect(watch.sign(undefined)).not.toHaveProperty("grewMost");
  });

  test.runIf(process.platform === "linux")("is read of a process that is there, and of no other", () => {
    expect(readOwnMemory(process.pid)).toBeGreaterThan(1_048_576);
    expect(readOwnMemory(2 ** 30)).toBeUndefined();
  });
});
