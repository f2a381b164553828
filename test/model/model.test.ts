/**
 * Random runs against the real statements on a real PostgreSQL, each judged by the checker. A run that fails is shrunk and
 * printed with its seed: EVERBEAT_MODEL_SEED=… plays the same runs again, EVERBEAT_MODEL_RUNS=… as many as one likes.
 */
import fc from "fast-check";
import { expect, onTestFinished, test, vi } from "vitest";
import { Everbeat } from "../../src/everbeat.ts";
import { createTestDatabase } from "../support/database.ts";
import { Sessions } from "./sessions.ts";
import { type Run, runs } from "./steps.ts";
import { tally } from "./tally.ts";
import { play } from "./world.ts";

const numRuns = Number(process.env["EVERBEAT_MODEL_RUNS"] ?? 25);
const seed = Number(process.env["EVERBEAT_MODEL_SEED"] ?? Date.now() % 1_000_000);
vi.setConfig({ testTimeout: 60_000 + numRuns * 20_000 });

test("whatever is done to a fleet, the record is right", async () => {
  const database = await createTestDatabase();
  // Nothing here is about the disk, and most of the time would be spent on waiting for it.
  await database.query(`alter database ${database.name} set synchronous_commit = off`);
  const everbeat = await Everbeat.open({ database: database.url, log: "silent", poolSize: 2 });
  const sessions = new Sessions(database.url, everbeat.database.schema);
  onTestFinished(async () => {
    await sessions.close();
    await everbeat.close({ now: true });
    await database.drop();
  });
  console.log(`the model: EVERBEAT_MODEL_SEED=${seed} EVERBEAT_MODEL_RUNS=${numRuns}`);
  const counts = new Map<string, number>();
  await fc.assert(
    fc.asyncProperty(runs(50), async (run: Run) => {
      const { problems, history } = await play({ everbeat, sessions }, run);
      tally(history, counts);
      expect(problems).toEqual([]);
    }),
    { seed, numRuns, unbiased: true },
  );
  console.log(counts);
});
