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

const SURROUNDINGS = {
  plain: async () => ({ handled: 0 }),
  /** Each used once, and then not for a while: longer than it takes upkeep to take them out. */
  async queues(stage, { worker, caller }) {
    const queues = stage.amount(10_000, 10_000);
    const startedNs = nowNs();
    await caller.tell("enqueueMany", { count: queues, options: { queues } });
    await handledBy([worker], queues, 120_000);
    const drainMs = msSince(startedNs);
    const database = await stage.database();
    await until(async () => (await countLanes(database)) <= 64, { everyMs: 500, what: "the end of the lanes" });
    return { handled: queues, queues, drainMs };
  },
  async unknown(stage) {
    const unknown = stage.amount(500_000, 100_000);
    await loadUnknown(await stage.database(), unknown);
    return { handled: 0, unknown };
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
    const { handled, ...made } = await SURROUNDINGS[surroundings](stage, { worker, caller });
    // As it would be long since, had all that come about by itself: not in the middle of the measure.
    await (await stage.database()).query("vacuum analyze");
    await caller.tell("enqueueAtRate", { perSecond: PER_SECOND, count: WARM_UP });
    await handledBy([worker], handled + WARM_UP, 30_000);
    const before = await stage.costs(OURS, []);
    await caller.tell("enqueueAtRate", { perSecond: PER_SECOND, count });
    await handledBy([worker], handled + WARM_UP + count, 30_000);
    const { serverMicros } = costPerTask(before, await stage.costs(OURS, []), count);
    const latencies = (await worker.tell("latencies")).slice(handled + WARM_UP);
    return {
      ...made,
      tasks: count,
      p50: percentile(latencies, 0.5),
      p99: percentile(latencies, 0.99),
      serverMicros,
      idleMsPerSecond: await costAtRest(stage),
    };
  },
};

/** Milliseconds of a processor per second. */
async function costAtRest(stage) {
  await pause(1_000);
  const before = await stage.costs(OURS, []);
  const startedNs = nowNs();
  await pause(stage.isShort ? 5_000 : 10_000);
  const after = await stage.costs(OURS, []);
  return ((after.serverMs - before.serverMs) * 1_000) / msSince(startedNs);
}
