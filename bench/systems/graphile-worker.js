/** graphile-worker: finishes by deleting, without a record. */
import { Logger, makeWorkerUtils, run, runMigrations } from "graphile-worker";
import pg from "pg";

export const SETTINGS = {
  /** The fastest that was found. */
  tuned: { concurrentJobs: 100, localQueue: { size: 2_000 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 },
  /** As its own documentation measures. */
  documented: { concurrentJobs: 24, localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 },
  /** Without a local queue, which waits for nobody: the quickest to start a single task. */
  prompt: { concurrentJobs: 24 },
  /** Ten tasks at once. */
  large: { concurrentJobs: 10, completeJobBatchDelay: 0, failJobBatchDelay: 0 },
  shipped: {},
};

const QUIET = new Logger(() => () => {});
const POOL = 20;

export async function open({ url, settings }) {
  const pool = new pg.Pool({ connectionString: url, max: POOL });
  pool.on("error", () => {});
  const preset = { worker: { ...settings, preparedStatements: true } };
  const options = { pgPool: pool, logger: QUIET, noHandleSignals: true };
  let utils;
  const open = async () => {
    utils ??= makeWorkerUtils(options);
    return utils;
  };
  return {
    prepare: () => runMigrations({ ...options, preset }),
    enqueue: async (input) => (await open()).addJob("bench", input),
    enqueueMany: async (inputs) => (await open()).addJobs(inputs.map((payload) => ({ identifier: "bench", payload }))),
    async unfinished() {
      const { rows } = await pool.query("select count(*)::int as count from graphile_worker.jobs");
      return rows[0].count;
    },
    async work(handle, { concurrency } = {}) {
      const worker = concurrency === undefined ? preset.worker : { ...preset.worker, concurrentJobs: concurrency };
      return run({ ...options, preset: { worker }, taskList: { bench: (payload) => handle(payload) } });
    },
    close: () => pool.end(),
  };
}
