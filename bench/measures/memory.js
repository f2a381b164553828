/** The memory of a worker process: idle, and with a thousand tasks in hand. */
import { setTimeout as pause } from "node:timers/promises";
import { until } from "../run/stage.js";

export const memory = {
  name: "memory",
  title: "Memory of a worker process",
  unit: "bytes",
  cases: ["everbeat", "pg-boss/laden", "graphile-worker/tuned"],
  rounds: { full: 2, short: 1 },
  async run(stage, system) {
    const inHand = 1_000;
    const work = { handler: "hold", ...(system.startsWith("pg-boss") ? {} : { concurrency: inHand }) };
    const caller = await stage.host(system);
    const worker = await stage.host(system);
    await worker.tell("work", work);
    await pause(SETTLE_MS);
    const idleBytes = worker.residentBytes;
    await caller.tell("enqueueMany", { count: inHand, batch: inHand, callers: 1 });
    await until(() => worker.tally.started >= inHand, { withinMs: 60_000, what: "a thousand tasks in hand" });
    await pause(SETTLE_MS);
    return { idleBytes, ladenBytes: worker.residentBytes };
  },
};

const SETTLE_MS = 3_000;
