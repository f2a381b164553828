/** Tasks with a megabyte in and a megabyte out: what the size of inputs and results costs. */
import { drain } from "../run/drain.js";
import { costPerTask } from "../run/stage.js";

/** A little less than the default limit of an input. */
const BYTES = 1_000_000;

export const size = {
  name: "size",
  title: "Tasks with 1 MB in and 1 MB out, ten at once (graphile-worker keeps no results)",
  unit: "ms",
  cases: ["everbeat/large", "graphile-worker/large", "pg-boss/large", "bullmq/large"],
  rounds: { full: 3, short: 1 },
  async run(stage, system) {
    const count = stage.amount(200, 50);
    await stage.postgres.checkpoint();
    const filler = await stage.host(system);
    const empty = await stage.costs(system, [filler]);
    const enqueueMs = await filler.tell("enqueueMany", { count, batch: 10, bytes: BYTES });
    const filled = await stage.costs(system, [filler]);
    const drained = await drain(stage, system, { count, work: { handler: "echo" }, asker: filler });
    const enqueue = costPerTask(empty, filled, count);
    const ended = costPerTask(drained.before, drained.after, count);
    return {
      tasks: count,
      ms: (enqueueMs + drained.ms) / count,
      enqueueMs: enqueueMs / count,
      drainMs: drained.ms / count,
      enqueue,
      drain: ended,
      total: {
        processorMicros: enqueue.serverMicros + enqueue.clientMicros + ended.serverMicros + ended.clientMicros,
        walBytes: enqueue.walBytes + ended.walBytes,
      },
    };
  },
};
