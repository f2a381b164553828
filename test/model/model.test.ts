/**
 * Random runs against the real statements on a real PostgreSQL, each judged by the checker. A run that fails is shrunk and
 * printed with its seed: EVERBEAT_MODEL_SEED=… draws the same runs again, EVERBEAT_MODEL_RUNS=… as many as one likes. Unless
 * that is given, as many as fit into a few seconds.
 */
import fc from "fast-check";
import { expect, test, vi } from "vitest";
import { openModel } from "./open-model.ts";
import { runs } from "./steps.ts";
import { tally } from "./tally.ts";

const asked = process.env["EVERBEAT_MODEL_RUNS"];
const seed = Number(process.env["EVERBEAT_MODEL_SEED"] ?? Date.now() % 1_000_000);
const SHORT = { numRuns: 60, withinMs: 10_000, atLeast: 2 };
const { numRuns, withinMs, atLeast } = asked ? { ...SHORT, numRuns: Number(asked), withinMs: Infinity } : SHORT;
// Without EVERBEAT_MODEL_SHRINK=no, a run that fails is made as short as it gets, which takes many more.
const endOnFailure = process.env["EVERBEAT_MODEL_SHRINK"] === "no";
vi.setConfig({ testTimeout: 120_000 + numRuns * 30_000 });

test("whatever is done to a fleet, the record is right", async () => {
  const play = await openModel();
  const counts = new Map<string, number>();
  let played = 0;
  const begunAt = performance.now();
  await fc.assert(
    fc.asyncProperty(runs(50), async (run) => {
      if (played >= atLeast && performance.now() - begunAt > withinMs) return;
      const { problems, history } = await play(run);
      tally(history, counts);
      played++;
      expect(problems).toEqual([]);
    }),
    { seed, numRuns, endOnFailure, unbiased: true },
  );
  const lines = [...counts].sort(([, one], [, other]) => other - one).map(([what, count]) => `${count} ${what}`);
  console.log(`the model: ${played} runs of seed ${seed}: ${lines.join(", ")}`);
  // A model that comes to nothing proves nothing.
  expect(counts.get("beat heard")).toBeGreaterThan(0);
});
