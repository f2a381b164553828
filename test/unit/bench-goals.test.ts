/** How the bench judges: what counts as reached, and that nothing counts that was not measured. */
import { describe, expect, test } from "vitest";
import { judge } from "../../bench/goals.js";

type Sample = Record<string, unknown>;
const drain = (samples: Record<string, Sample[]>) => ({
  measures: { "drain-4": { name: "drain-4", title: "drain", unit: "tasks/s", rounds: 3, samples } },
});
const lineOf = (samples: Record<string, Sample[]>) => judge(drain(samples))[0]?.lines[0];
const at = (...rates: number[]) => rates.map((perSecond) => ({ perSecond }));

describe("a goal against a peer", () => {
  test("is reached by the median of the rounds' own ratios", () => {
    const line = lineOf({ "everbeat/tuned": at(30, 200, 60), "graphile-worker/tuned": at(20, 100, 50) });
    expect(line).toMatchObject({ verdict: "reached", ratio: { median: 1.5, min: 1.2, max: 2, rounds: 3 } });
  });

  test("is marked as missed where that is too little", () => {
    expect(lineOf({ "everbeat/tuned": at(10), "graphile-worker/tuned": at(10) })?.verdict).toBe("MISSED");
  });

  test("is neither where the peer failed, and says why", () => {
    const line = lineOf({
      "everbeat/tuned": at(10),
      "graphile-worker/tuned": [{ failed: "not done within 180 s\nat ..." }],
    });
    expect(line).toMatchObject({ verdict: "unknown", why: "graphile-worker, tuned failed: not done within 180 s" });
  });

  test("goes by the rounds that both finished", () => {
    const line = lineOf({
      "everbeat/tuned": [{ failed: "gone" }, { perSecond: 22 }],
      "graphile-worker/tuned": at(10, 20),
    });
    expect(line).toMatchObject({ verdict: "reached", ratio: { median: 1.1, rounds: 1 } });
  });
});

test("goals of measures that were not run are left out", () => {
  expect(judge({ measures: {} })).toEqual([]);
});
