/** A worker that is cut off from the database stops first: never does one task run twice at once. */
import { describe, expect, test, vi } from "vitest";
import type { CutDirection } from "../support/cutting-proxy.ts";
import { openCutScene } from "../support/heart-cut.ts";

vi.setConfig({ testTimeout: 180_000 });

const DIRECTIONS: readonly CutDirection[] = ["both", "to server", "to worker"];

describe("a worker whose packets are swallowed", () => {
  test("has stopped before another begins its task again, whichever way they were lost (10 runs)", async () => {
    const scene = await openCutScene();
    for (let run = 0; run < 10; run++) {
      const result = await scene.run("obey", DIRECTIONS[run % DIRECTIONS.length] ?? "both");
      expect(result.linesBefore).toBeGreaterThan(20);
      expect(result.gapMs, JSON.stringify(result)).toBeGreaterThan(0);
      expect(result.ended).toBe("lives on");
    }
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
