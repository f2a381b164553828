/** No-op tasks, enqueued in bulk and then drained by one worker process: rate, processor time, and WAL from enqueue to end. */
import { drain } from "../run/drain.js";
import { costPerTask } from "../run/stage.js";

/** BullMQ gets fewer, so that a round of it does not take ten times as long; its rate does not depend on it. */
const SHARE = { bullmq: 0.4, "bullmq-postgres": 0.05 };

export const drainOfOneProcess = {
  name: "drain",
  title: "Drain of no-op tasks, one worker process",
  unit: "tasks/s",
  cases: [
    "everbeat/tuned",
    "everbeat",
    "graphile-worker/tuned",
    "graphile-worker/documented",
    "pg-boss/tuned",
    "bullmq/tuned",
    "bullmq-postgres/tuned",
  ],
  rounds: { full: 5, short: 2 },
  run: (stage, system) => drainOnce(stage, system, { processes: 1, full: 100_000, short: 20_000 }),
};

export const drainOfFourProcesses = {
  name: "drain-4",
  title: "Drain of no-op tasks, four worker processes",
  unit: "tasks/s",
  cases: ["everbeat/tuned", "graphile-worker/tuned", "pg-boss/tuned", "bullmq/tuned"],
  rounds: { full: 5, short: 1 },
  run: (stage, system) => drainOnce(stage, system, { processes: 4, full: 100_000, short: 20_000 }),
};

async function drainOnce(stage, system, { processes, full, short }) {
  const count = Math.round(stage.amount(full, short) * (SHARE[system.split("/")[0]] ?? 1));
  await stage.postgres.checkpoint();
  const filler = await stage.host(system);
  const empty = await stage.costs(system, [filler]);
  const enqueueMs = await filler.tell("enqueueMany", { count });
  const filled = await stage.costs(system, [filler]);
  await stage.analyse();
  const drained = await drain(stage, system, { processes, count, work: { handler: "nothing" }, asker: filler });
  const enqueueCost = costPerTask(empty, filled, count);
  const drainCost = costPerTask(drained.before, drained.after, count);
  return {
    tasks: count,
    perSecond: (count * 1000) / drained.ms,
    startMs: drained.startMs,
    enqueuePerSecond: (count * 1000) / enqueueMs,
    enqueue: enqueueCost,
    drain: drainCost,
    total: {
      processorMicros:
        enqueueCost.serverMicros + enqueueCost.clientMicros + drainCost.serverMicros + drainCost.clientMicros,
      walBytes: enqueueCost.walBytes + drainCost.walBytes,
    },
  };
}
