/** From the call of enqueue, in one process, to the start of the handler, in another, at a steady 100 a second. */

import { percentile } from "../report/statistics.js";
import { handledBy } from "../run/drain.js";

const PER_SECOND = 100;

export const latency = {
  name: "latency",
  title: "Enqueue to start at 100 tasks a second",
  unit: "ms",
  cases: ["everbeat", "graphile-worker/prompt", "pg-boss/prompt", "bullmq/tuned", "bullmq-postgres/tuned"],
  rounds: { full: 5, short: 1 },
  async run(stage, system) {
    const count = stage.amount(800, 300);
    const worker = await stage.host(system);
    const caller = await stage.host(system);
    await worker.tell("work", { handler: "latency" });
    await caller.tell("enqueueAtRate", { perSecond: PER_SECOND, count: WARM_UP });
    await handledBy([worker], WARM_UP, 30_000);
    await caller.tell("enqueueAtRate", { perSecond: PER_SECOND, count });
    await handledBy([worker], WARM_UP + count, 30_000);
    const latencies = (await worker.tell("latencies")).slice(WARM_UP);
    return {
      tasks: count,
      p50: percentile(latencies, 0.5),
      p95: percentile(latencies, 0.95),
      p99: percentile(latencies, 0.99),
      worst: Math.max(...latencies),
    };
  },
};

/** Connections, plans, compiled code. */
const WARM_UP = 100;
