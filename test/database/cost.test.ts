/**
 * What tasks cost, in figures that do not depend on how busy the machine is: statements, round trips and WAL bytes. Kept in
 * bench/guard.json; after a deliberate change delete it, run this file, and commit the new one.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import type { OpenOptions } from "../../src/config/open-options.ts";
import { Everbeat } from "../../src/everbeat.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { type CountingProxy, startCountingProxy, type Traffic } from "../support/counting-proxy.ts";
import { eventually } from "../support/eventually.ts";
import { startOwnServer } from "../support/own-server.ts";

const GUARD = fileURLToPath(new URL("../../bench/guard.json", import.meta.url));
/**
 * How much more than on record is let pass. WAL hardly varies: whether a page was split here or there. Statements of a drain are
 * one for each round, and those of the worker's start and stop and of what it looks for now and then: one more for each round would be a half more.
 */
const SLACK = { walBytes: 0.15, statements: 0.4, roundTrips: 0.4 };
/** All tasks of a round end together (see `inRanks`), so that a round carries as many on a busy machine as on an idle one. */
const CONCURRENCY = 100;

type Cost = Traffic & { walBytes: number };
interface Guard {
  readonly about: string;
  readonly costs: Record<string, Cost>;
}

const MAIN = "everbeat";
const HEART = "everbeat heart";

test("enqueueing, draining and beating cost no more than is on record", { timeout: 180_000 }, async () => {
  const { everbeat, proxy, direct } = await openCounted({
    // Sweeps are left out: how many there are in a drain depends on how long that takes.
    recovery: { runnerHeartbeatInterval: "200ms", claimerHeartbeatInterval: "200ms", checkInterval: "1m" },
  });
  let isHolding = false;
  let handled = 0;
  const endTogether = inRanks(CONCURRENCY);
  const task = defineTask({
    name: "counted",
    run: async (_input: { n: number }, { signal }) => {
      handled++;
      await endTogether();
      if (isHolding) await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    },
  });
  const inputs = Array.from({ length: 9_800 }, (_, n) => ({ n }));
  const costOf = costMeter(proxy, direct);
  const costs: Record<string, Cost> = {};

  costs["enqueue, one by one"] = await costOf(200, async () => {
    for (const input of inputs.slice(0, 200)) await everbeat.enqueue(task, input);
  });
  costs["enqueue, in bulk"] = await costOf(inputs.length, () => everbeat.enqueueMany(task, inputs));
  const pending = 200 + inputs.length;
  // With the worker's start, and its stop, which waits for the last outcome to be written.
  costs["claim, run and finish"] = await costOf(pending, async () => {
    const worker = await everbeat.work([task], { concurrency: CONCURRENCY, handleSignals: false });
    await eventually(() => handled === pending, { within: 90_000, what: "the end of the drain" });
    await worker.stop();
  });

  isHolding = true;
  const worker = await everbeat.work([task], { concurrency: CONCURRENCY, handleSignals: false });
  await everbeat.enqueueMany(task, inputs.slice(0, CONCURRENCY));
  await eventually(() => worker.running === CONCURRENCY, { within: 30_000, what: "a hundred running tasks" });
  costs["one beat, with 100 running tasks"] = await beatCost(proxy, direct, 25);

  expect((await everbeat.tasks.counts()).completed).toBe(pending);
  if (!existsSync(GUARD)) writeGuard(costs);
  const guard = JSON.parse(readFileSync(GUARD, "utf8")) as Guard;
  expect(Object.keys(costs)).toEqual(Object.keys(guard.costs));
  expect(excesses(costs, guard)).toEqual([]);
});

/** Whoever calls this goes on when as many others have called it. */
function inRanks(size: number): () => Promise<void> {
  let rank: (() => void)[] = [];
  return () =>
    new Promise((resolve) => {
      rank.push(resolve);
      if (rank.length < size) return;
      for (const goOn of rank) goOn();
      rank = [];
    });
}

/** By way of the proxy, on a server of its own that writes nothing unasked: no page images, no vacuum. */
async function openCounted(options: OpenOptions) {
  const server = await startOwnServer();
  const direct = new pg.Client(server.url);
  await direct.connect();
  onTestFinished(() => direct.end());
  for (const setting of ["full_page_writes", "autovacuum"]) await direct.query(`alter system set ${setting} = off`);
  await direct.query("select pg_reload_conf()");
  const proxy = await startCountingProxy(server.url);
  const everbeat = await Everbeat.open({ database: proxy.url, log: "silent", ...options });
  onTestFinished(() => everbeat.close({ now: true }));
  return { everbeat, proxy, direct };
}

/** Per task, of all connections but the hearts', which are counted by themselves. */
function costMeter(proxy: CountingProxy, direct: pg.Client) {
  return async (tasks: number, act: () => Promise<unknown>): Promise<Cost> => {
    const before = { ...proxy.traffic(MAIN), walBytes: await walBytes(direct) };
    await act();
    const after = { ...proxy.traffic(MAIN), walBytes: await walBytes(direct) };
    return {
      statements: (after.statements - before.statements) / tasks,
      roundTrips: (after.roundTrips - before.roundTrips) / tasks,
      walBytes: (after.walBytes - before.walBytes) / tasks,
    };
  };
}

async function walBytes(direct: pg.Client): Promise<number> {
  const { rows } = await direct.query("select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8 as bytes");
  return rows[0].bytes as number;
}

/** Of the heart's own session, as the server counts it, over so many beats. */
async function beatCost(proxy: CountingProxy, direct: pg.Client, beats: number): Promise<Cost> {
  // A beat is one change of the heart's row. The server reports both counts together, now and then: what is counted here
  // goes from one report to a later one.
  const report = async () => {
    const { rows } = await direct.query<{ walBytes: number; beats: number }>(
      `select sum(w.wal_bytes)::float8 as "walBytes",
              (select n_tup_upd::int from pg_stat_user_tables where schemaname = 'everbeat' and relname = 'heart') as beats
       from pg_stat_activity a, pg_stat_get_backend_wal(a.pid) w where a.application_name = $1`,
      [HEART],
    );
    return { walBytes: 0, beats: 0, ...rows[0], ...proxy.traffic(HEART) };
  };
  const reportAfter = async (count: number) =>
    eventually(report, { within: 60_000, until: (now) => now.beats > count, what: `more than ${count} beats` });
  const before = await reportAfter((await report()).beats);
  const after = await reportAfter(before.beats + beats);
  const passed = after.beats - before.beats;
  return {
    statements: (after.statements - before.statements) / passed,
    roundTrips: (after.roundTrips - before.roundTrips) / passed,
    walBytes: (after.walBytes - before.walBytes) / passed,
  };
}

function excesses(costs: Record<string, Cost>, guard: Guard): string[] {
  return Object.entries(costs).flatMap(([what, cost]) =>
    (Object.keys(SLACK) as (keyof Cost)[]).flatMap((figure) => {
      const allowed = (guard.costs[what]?.[figure] ?? 0) * (1 + SLACK[figure]);
      if (cost[figure] <= allowed) return [];
      return [`${what}: ${cost[figure]} ${figure}, allowed are ${allowed} (bench/guard.json)`];
    }),
  );
}

function writeGuard(costs: Record<string, Cost>): void {
  const about =
    "What a task costs, per task (a beat, per beat). Written and compared by test/database/cost.test.ts, which says how much more is let pass.";
  const tidy = (_key: string, value: unknown) => (typeof value === "number" ? Number(value.toPrecision(4)) : value);
  writeFileSync(GUARD, `${JSON.stringify({ about, costs }, tidy, 2)}\n`);
}
