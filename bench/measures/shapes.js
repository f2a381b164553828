/** Loads of other shapes than one queue of plain tasks, and whether one of them is a cliff. */
import { setTimeout as pause } from "node:timers/promises";
import { msSince, nowNs } from "../process/clock.js";
import { drain, fill } from "../run/drain.js";
import { until } from "../run/stage.js";

const OURS = "everbeat/tuned";
const WORK = { handler: "nothing" };

const SHAPES = {
  plain: (stage) => drainAll(stage, {}),
  queues: (stage) => drainAll(stage, { queues: stage.amount(1_000, 1_000) }),
  delayed: drainDelayed,
  "one-at-a-time": (stage) =>
    // More than can be done in that time: 20,000 were all done, and what it said was how long it had waited.
    drainFor(stage, {
      count: stage.amount(60_000, 20_000),
      options: {},
      work: { ...WORK, concurrency: 1, prefetch: 0 },
    }),
  exclusive: (stage) =>
    drainFor(stage, { count: stage.amount(100_000, 20_000), options: { exclusiveKey: "one" }, work: WORK }),
};

export const shapes = {
  name: "shapes",
  title: "Loads of other shapes",
  unit: "µs",
  cases: Object.keys(SHAPES),
  rounds: { full: 2, short: 1 },
  run: (stage, shape) => SHAPES[shape](stage),
};

async function drainAll(stage, options) {
  const count = stage.amount(100_000, 20_000);
  const { host } = await fill(stage, OURS, { count, options });
  await stage.analyse();
  const { ms } = await drain(stage, OURS, { count, work: WORK, asker: host });
  return { tasks: count, microsPerTask: (ms * 1000) / count };
}

/** The worker is there before they are due. The clock runs from when they are due. */
async function drainDelayed(stage) {
  const count = stage.amount(100_000, 20_000);
  const filler = await stage.host(OURS);
  const worker = await stage.host(OURS);
  await worker.tell("work", WORK);
  const probeMs = await filler.tell("enqueueMany", { count: 2_000 });
  await until(() => worker.tally.handled >= 2_000, { withinMs: 60_000, what: "the end of the first tasks" });
  const dueAt = Date.now() + Math.max(5_000, (3 * probeMs * count) / 2_000);
  await filler.tell("enqueueMany", { count, options: { runAt: new Date(dueAt).toISOString() } });
  await stage.analyse();
  if (Date.now() > dueAt) throw new Error("the tasks were due before they were all enqueued");
  await pause(dueAt - Date.now());
  await until(() => worker.tally.handled >= 2_000 + count, { withinMs: 120_000, what: "the end of the delayed tasks" });
  await until(async () => (await filler.tell("unfinished")) === 0, { what: "the end of all tasks" });
  return { tasks: count, microsPerTask: ((Date.now() - dueAt) * 1000) / count };
}

/** As many as get done in a while: one after the other, each with a durable end before the next may begin. */
async function drainFor(stage, { count, options, work }) {
  await fill(stage, OURS, { count, options });
  await stage.analyse();
  const worker = await stage.host(OURS);
  const startedNs = nowNs();
  await worker.tell("work", work);
  await pause(stage.isShort ? 5_000 : 15_000);
  const { handled } = worker.tally;
  return { tasks: handled, pending: count, microsPerTask: (msSince(startedNs) * 1000) / handled };
}
