/** A worker that is cut off from the database stops first: never does one task run twice at once. */
import { describe, expect, test, vi } from "vitest";
import type { CutDirection } from "../support/cutting-proxy.ts";
import { type CutRun, openCutScene } from "../support/heart-cut.ts";

vi.setConfig({ testTimeout: 180_000 });

const DIRECTIONS: readonly CutDirection[] = ["both", "to server", "to worker"];

describe("a worker whose packets are swallowed", () => {
  test("has stopped before another begins its task again, whichever way they were lost (10 runs)", async () => {
    const scene = await openCutScene();
    const ends: CutRun["ended"][] = [];
    for (let run = 0; run < 10; run++) {
      const result = await scene.run("obey", DIRECTIONS[run % DIRECTIONS.length] ?? "both");
      expect(result.linesBefore).toBeGreaterThan(20);
      expect(result.gapMs, JSON.stringify(result)).toBeGreaterThan(0);
      ends.push(result.ended);
    }
    // Whoever obeys lives on. One that the machine kept from running for the 300 ms that it had for that was rightly ended.
    expect(ends.filter((ended) => ended !== "lives on" && ended !== "SIGKILL")).toEqual([]);
    expect(ends.filter((ended) => ended === "lives on").length, ends.join()).toBeGreaterThanOrEqual(7);
  });

  test.each(["ignore", "block"] as const)(
    "is ended by its heart in time where its handler does not stop (%s)",
    async (how) => {
      const scene = await openCutScene();
      for (const direction of DIRECTIONS) {
        const result = await scene.run(how, direction);
        expect(result.gapMs, JSON.stringify(result)).toBeGreaterThan(0);
        expect(result.ended).toBe("SIGKILL");
      }
    },
  );
});
