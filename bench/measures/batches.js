/** A batch of large items in a process runner, beside the same inline: what a message costs must not grow with the batch. */
import { Everbeat } from "../../dist/index.js";
import { batchTasks } from "../process/batch-tasks.js";
import { median } from "../report/statistics.js";

/** Half of the default limit of an input. */
const BYTES = 500_000;
const WITHIN_MS = 180_000;

const OPTIONS = {
  process: { runIn: "process", module: new URL("../process/batch-tasks.js", import.meta.url) },
  inline: {},
};

export const batches = {
  name: "batches",
  title:
    "Batches of items with 500 kB in and out, in a process runner and inline: per item, from the handler's start to the last result",
  unit: "ms",
  cases: Object.keys(OPTIONS),
  rounds: { full: 3, short: 1 },
  async run(stage, runIn) {
    const { url } = await stage.database();
    const everbeat = await Everbeat.open({ database: url, log: "silent" });
    try {
      const [small, large] = batchTasks(OPTIONS[runIn]);
      await everbeat.work([small, large], { concurrency: 100, runners: { processes: 1 } });
      // The runner is started, and its code is compiled.
      await perItem(everbeat, small, 10);
      const ms10 = await medianOf(5, () => perItem(everbeat, small, 10));
      return { ms10, ms: await medianOf(3, () => perItem(everbeat, large, 100)) };
    } finally {
      await everbeat.close({ now: true });
    }
  },
};

async function medianOf(times, measureOnce) {
  const values = [];
  for (let n = 0; n < times; n++) values.push(await measureOnce());
  return median(values);
}

/** They are enqueued in one transaction, so that a worker meets all of them at once. Their attempts begin together, and the longest is the batch's. */
async function perItem(everbeat, task, count) {
  const inputs = Array.from({ length: count }, (_, n) => ({ n, text: `${n}`.repeat(BYTES).slice(0, BYTES) }));
  const durations = [];
  const all = new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`${durations.length} of ${count} ended`)), WITHIN_MS);
    const off = everbeat.on("task.ended", ({ name, durationMs }) => {
      if (name !== task.name || durations.push(durationMs) < count) return;
      clearTimeout(timer);
      off();
      resolve();
    });
  });
  await everbeat.enqueueMany(task, inputs);
  await all;
  return Math.max(...durations) / count;
}
