/** Everbeat, as users get it: the public API, from dist. */
import { defineTask, Everbeat } from "../../dist/index.js";

export const SETTINGS = {
  default: { open: {}, work: { concurrency: 100 } },
  /** Whose worker dies runs again, as with every peer; by default it fails, and no more of them are in hand than run. */
  repeatable: { open: {}, work: { concurrency: 100 }, task: { onCrash: "retry" } },
  /** Ten tasks at once. */
  large: { open: { maxJsonBytes: 2_000_000 }, work: { concurrency: 10 } },
  /** For tasks that do next to nothing: concurrency is also how large a batch can be. */
  tuned: { open: {}, work: { concurrency: 2_000 } },
};

export async function open({ url, settings }) {
  const everbeat = await Everbeat.open({ database: url, log: "silent", ...settings.open });
  const task = (run) => defineTask({ name: "bench", ...settings.task, run });
  const enqueued = task(() => undefined);
  return {
    /** Opening has done it. */
    prepare: async () => {},
    enqueue: (input) => everbeat.enqueue(enqueued, input),
    enqueueMany: (inputs, { queues, ...options } = {}) =>
      everbeat.enqueueMany(enqueued, inputs, {
        options: queues ? (input) => ({ ...options, queue: `queue-${input.n % queues}` }) : options,
      }),
    async unfinished() {
      const queues = await everbeat.queues.list();
      return queues.reduce((sum, { ready, delayed, parked, claimed, running }) => {
        return sum + ready + delayed + parked + claimed + running;
      }, 0);
    },
    listening: () => everbeat.recovery.listening(),
    work: (run, options) => everbeat.work([task(run)], { ...settings.work, ...options }),
    close: () => everbeat.close(),
  };
}
