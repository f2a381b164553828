/** The clock that runs through suspend: whichever a platform has, and the one that is read for every task. */
import { describe, expect, test } from "vitest";
import { clockOf, createPromptClock, steadyNowMs } from "../../src/heart/clock.ts";

test("every platform has one, whose resolution is known", () => {
  // Whole seconds, as macOS counts its uptime, would be too coarse for a session's grace.
  for (const platform of ["linux", "darwin", "win32", "freebsd"] as const)
    expect(clockOf(platform).resolutionMs).toBeLessThan(20);
  expect(clockOf("darwin").nowMs()).toBeGreaterThan(0);
  const { nowMs } = clockOf(process.platform);
  const [before, now, after] = [nowMs(), steadyNowMs(), nowMs()];
  expect([before <= now, now <= after]).toEqual([true, true]);
});

describe("the prompt one", () => {
  /** A machine that has been up for a thousand seconds. */
  function machine() {
    const at = { steady: 1_000_000, prompt: 5_000, wall: 1_700_000_000_000 };
    let reads = 0;
    const now = createPromptClock({
      steadyMs: () => {
        reads++;
        // In hundredths of a second, as Linux tells it.
        return Math.floor(at.steady / 10) * 10;
      },
      promptMs: () => at.prompt,
      wallMs: () => at.wall,
    });
    return {
      now,
      reads: () => reads,
      pass(ms: number) {
        for (const clock of ["steady", "prompt", "wall"] as const) at[clock] += ms;
      },
      suspend(ms: number) {
        at.steady += ms;
        at.wall += ms;
      },
      setWallClock(ms: number) {
        at.wall += ms;
      },
    };
  }

  test("counts as the others do, to the microsecond and without asking them, while nothing happens", () => {
    const { now, pass, reads } = machine();
    const before = now();
    for (let n = 0; n < 1_000; n++) {
      pass(7.25);
      now();
    }
    expect(now() - before).toBeCloseTo(7_250, 3);
    expect(reads()).toBe(1);
  });

  test("counts a suspend, at the first question after it", () => {
    const { now, pass, suspend } = machine();
    const before = now();
    suspend(60_000);
    expect(now() - before).toBeGreaterThan(59_980);
    pass(5);
    expect(now() - before).toBeLessThan(60_030);
  });

  test("does not believe the wall clock itself, and never goes back", () => {
    const { now, pass, setWallClock } = machine();
    for (const change of [3_600_000, -7_200_000, 30]) {
      const before = now();
      setWallClock(change);
      expect(now() - before).toBeGreaterThanOrEqual(0);
      expect(now() - before).toBeLessThan(20);
      pass(100);
      expect(now() - before).toBeGreaterThanOrEqual(100);
      expect(now() - before).toBeLessThan(120);
    }
  });
});
