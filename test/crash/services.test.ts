/** A service of the cluster that the tests make up, in real processes that are killed, stopped, cut off and of different versions. */
import { describe, expect, test, vi } from "vitest";
import { openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { startOwnServer } from "../support/own-server.ts";
import { type RunRow, runsOn, type ServiceProcess, startServiceProcess } from "../support/service-processes.ts";

vi.setConfig({ testTimeout: 90_000 });

const DIGEST = { name: "digest", everyMs: 200 } as const;
const HELD_UP = { ...DIGEST, isHeldUp: true } as const;

async function scene() {
  const database = await openCrashDatabase();
  const runs = await runsOn(database);
  const start = (services: Parameters<typeof startServiceProcess>[0]["services"]) =>
    startServiceProcess({ url: database.url, services });
  const runsBy = async (process: ServiceProcess, service = "digest") =>
    (await runs(service)).filter(({ by }) => by === process.id);
  const hasRun = (process: ServiceProcess, times: number, service = "digest") =>
    eventually(async () => (await runsBy(process, service)).length >= times, {
      within: 30_000,
      what: `${times} runs of ${service}`,
    });
  const turn = async () => (await database.everbeat.services()).cluster.find(({ service }) => service === "digest");
  return { database, runs, runsBy, hasRun, start, turn };
}

const overlaps = (runs: readonly RunRow[]) =>
  runs.filter((run, at) => at > 0 && Number(runs[at - 1]?.endedAt ?? Number.POSITIVE_INFINITY) > Number(run.beganAt));

describe("a service of the cluster", () => {
  test("is run by one of many at a time, an interval apart, and its record says by whom and how long it took", async () => {
    const { runs, start, turn } = await scene();
    const processes = await Promise.all([start([DIGEST]), start([DIGEST]), start([DIGEST])]);
    const all = await eventually(() => runs("digest"), { until: (all) => all.length >= 12, within: 30_000 });
    expect(overlaps(all)).toEqual([]);
    const took = Number(all.at(-1)?.beganAt) - Number(all[0]?.beganAt);
    expect(took).toBeGreaterThanOrEqual((all.length - 1) * DIGEST.everyMs * 0.75);
    expect(await turn()).toMatchObject({ everyMs: 200, tookMs: expect.any(Number), error: null, failures: 0 });
    expect(processes.map(({ id }) => id)).toContain((await turn())?.takenBy);
  });

  test("whose process is killed in the middle of it is run by another, once the turn is free", async () => {
    const { runsBy, hasRun, start, turn } = await scene();
    const one = await start([HELD_UP]);
    await hasRun(one, 1);
    const other = await start([DIGEST]);
    expect((await turn())?.isRunning).toBe(true);
    await one.kill();
    await hasRun(other, 2);
    expect(await runsBy(one)).toMatchObject([{ endedAt: null }]);
  });

  test("that takes long is not run by another meanwhile, for as long as its process asks for more time", async () => {
    const { runs, hasRun, start, turn } = await scene();
    const one = await start([HELD_UP]);
    await hasRun(one, 1);
    await start([DIGEST]);
    // Longer than a turn is free by itself.
    const before = (await turn())?.takenAgoMs ?? 0;
    await eventually(async () => ((await turn())?.takenAgoMs ?? 0) > before + 7_000, { within: 30_000 });
    expect(await runs("digest")).toHaveLength(1);
    one.release();
    await eventually(async () => (await runs("digest")).length > 2);
    expect(overlaps(await runs("digest"))).toEqual([]);
  });

  test("whose process is stopped in the middle of it is run by another, and the run that goes on later is asked to end and changes no record", async () => {
    const { hasRun, start, turn } = await scene();
    const one = await start([HELD_UP]);
    await hasRun(one, 1);
    const other = await start([DIGEST]);
    one.signal("SIGSTOP");
    await hasRun(other, 2);
    one.signal("SIGCONT");
    await one.heard(({ aborted }) => aborted === "digest");
    await hasRun(other, 5);
    expect(await turn()).toMatchObject({ takenBy: other.id, error: null });
  });

  test("goes on when the database has been restarted", async () => {
    const server = await startOwnServer();
    const database = await openCrashDatabase({}, server.url);
    const runs = await runsOn(database);
    const start = (service: typeof DIGEST | typeof HELD_UP) =>
      startServiceProcess({ url: database.url, services: [service] });
    const [one, other] = [await start(HELD_UP), await start(DIGEST)];
    await eventually(async () => (await runs("digest")).some(({ by }) => by === one.id || by === other.id));
    await server.stop("immediate");
    await server.start();
    const before = ((await eventually(() => runs("digest").catch(() => undefined), { within: 30_000 })) ?? []).length;
    one.release();
    await eventually(async () => (await runs("digest")).length >= before + 3, { within: 30_000, what: "further runs" });
  });

  test("that an older version does not know is run by a newer one, while the older one has all others", async () => {
    const { database, runs, hasRun, start } = await scene();
    const older = await start([DIGEST]);
    await hasRun(older, 1);
    const newer = await start([DIGEST, { name: "novelty", everyMs: 300 }]);
    await hasRun(newer, 5, "novelty");
    await hasRun(older, 10);
    const [first] = await runs("novelty");
    const since = (await runs("digest")).filter(({ beganAt }) => beganAt > (first?.beganAt as Date));
    expect(new Set(since.map(({ by }) => by))).toEqual(new Set([older.id]));
    // And the other way round: the newer one has both when the older one is gone.
    await older.kill();
    await hasRun(newer, 2);
    expect((await database.everbeat.services()).cluster.map(({ service }) => service)).toEqual(["digest", "novelty"]);
  });

  test("is run by one that has a less frequent one, soon after the process that had it is killed", async () => {
    const { runsBy, hasRun, start, turn } = await scene();
    const one = await start([DIGEST]);
    await hasRun(one, 1);
    // Only this one knows both.
    const other = await start([DIGEST, { name: "daily", everyMs: 86_400_000 }]);
    await hasRun(other, 1, "daily");
    await hasRun(one, 5);
    expect(await runsBy(other)).toEqual([]);
    await one.kill();
    await eventually(async () => (await turn())?.takenBy === other.id, { within: 10_000, what: "a run by the other" });
    await hasRun(other, 3);
    expect(await runsBy(other, "daily")).toHaveLength(1);
  });

  test("that is slow delays no other of its process", async () => {
    const { runs, start } = await scene();
    await start([DIGEST, { name: "slow", everyMs: 300, isHeldUp: true }]);
    const all = await eventually(() => runs("digest"), { until: (all) => all.length >= 15, within: 30_000 });
    expect(await runs("slow")).toMatchObject([{ endedAt: null }]);
    const gaps = all.slice(1).map((run, at) => Number(run.beganAt) - Number(all[at]?.beganAt));
    expect(gaps.toSorted((a, b) => a - b).at(7) ?? 0).toBeLessThan(2 * DIGEST.everyMs);
  });
});
