/** From the start of a worker's process until its first task runs, on a schema that is there already. */

import { msSince } from "../process/clock.js";
import { handledBy } from "../run/drain.js";

export const start = {
  name: "start",
  title: "Start of a worker: process start to first claim",
  unit: "ms",
  cases: ["everbeat", "graphile-worker/tuned", "pg-boss/tuned", "bullmq-postgres/tuned", "bullmq/tuned"],
  rounds: { full: 7, short: 2 },
  async run(stage, system) {
    const caller = await stage.host(system);
    await caller.tell("enqueueMany", { count: 1 });
    await caller.kill();
    const worker = stage.spawn(system);
    await stage.connect(worker, system);
    await worker.tell("work", { handler: "nothing" });
    await handledBy([worker], 1, 60_000);
    return { ms: msSince(worker.startedNs, worker.tally.firstNs) };
  },
};
