/** Enqueue to start, and the server at rest, where there is much that should not matter: queues that were used once, tasks that nobody here knows. */
import { setTimeout as pause } from "node:timers/promises";
import { msSince, nowNs } from "../process/clock.js";
import { percentile } from "../report/statistics.js";
import { handledBy } from "../run/drain.js";
import { countLanes, loadUnknown } from "../run/load.js";
import { costPerTask, until } from "../run/stage.js";

const OURS = "everbeat";
const PER_SECOND = 100;
/** Connections, plans, compiled code. */
const WARM_UP = 100;

/** All that is handled before the measure: as many tasks as there are queues in the case that has many. */
const TASKS_BEFORE = 10_000;

const SURROUNDINGS = {
  plain: { queues: 1, prepare: async () => ({}) },
  queues: {
    queues: TASKS_BEFORE,
    /** Each was used once, and then not for a while: longer than it takes upkeep to take them out. */
    async prepare(stage) {
      const database = await stage.database();
      await until(async () => (await countLanes(database)) <= 64, { everyMs: 500, what: "the end of the lanes" });
      return {};
    },
  },
  unknown: {
    queues: 1,
    async prepare(stage) {
      const unknown = stage.amount(500_000, 100_000);
      await loadUnknown(await stage.database(), unknown);
      return { unknown };
    },
  },
};

export const breadth = {
  name: "breadth",
  title: "Queues ever used, and tasks that this worker does not know",
  unit: "ms",
  cases: Object.keys(SURROUNDINGS),
  rounds: { full: 3, short: 1 },
  limitMs: 300_000,
  async run(stage, surroundings) {
    const count = stage.amount(800, 300);
    const worker = await stage.host(OURS);
    const caller = await stage.host(OURS);
    await worker.tell("work", { handler: "latency" });
    const { queues, prepare } = SURROUNDINGS[surroundings];
    const drainMs = await drainBefore(queues, { worker, caller });
    const made = await prepare(stage);
    // As it would be long since, had all that come about by itself: not in the middle of the measure.
    await (await stage.database()).query("vacuum analyze");
    await caller.tell("enqueueAtRate", { perSecond: PER_SECOND, count: WARM_UP });
    await handledBy([worker], TASKS_BEFORE + WARM_UP, 30_000);
    const before = await stage.costs(OURS, []);
    await caller.tell("enqueueAtRate", { perSecond: PER_SECOND, count });
    await handledBy([worker], TASKS_BEFORE + WARM_UP + count, 30_000);
    const { serverMicros } = costPerTask(before, await stage.costs(OURS, []), count);
    const latencies = (await worker.tell("latencies")).slice(TASKS_BEFORE + WARM_UP);
    return {
      ...made,
      queues,
      drainMs,
      tasks: count,
      p50: percentile(latencies, 0.5),
      p99: percentile(latencies, 0.99),
      serverMicros,
      idleMsPerSecond: await costAtRest(stage),
    };
  },
};

/** From the first enqueue to the last end, in milliseconds. */
async function drainBefore(queues, { worker, caller }) {
  const startedNs = nowNs();
  await caller.tell("enqueueMany", { count: TASKS_BEFORE, options: { queues } });
  await handledBy([worker], TASKS_BEFORE, 120_000);
  return msSince(startedNs);
}

/** Milliseconds of a processor per second. */
async function costAtRest(stage) {
  await pause(1_000);
  const before = await stage.costs(OURS, []);
  const startedNs = nowNs();
  await pause(stage.isShort ? 5_000 : 10_000);
  const after = await stage.costs(OURS, []);
  return ((after.serverMs - before.serverMs) * 1_000) / msSince(startedNs);
}
