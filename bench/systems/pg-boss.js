/** pg-boss: hands tasks to the handler in batches; told of new ones by notices where that is quicker than its polling. */
import pg from "pg";
import { PgBoss } from "pg-boss";

export const SETTINGS = {
  /** Two workers, each with batches of 2,000, that go on at once while batches are full. */
  tuned: {
    boss: {},
    queue: {},
    work: { batchSize: 2_000, localConcurrency: 2, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 },
  },
  /** Told of every new task. */
  prompt: {
    boss: { useListenNotify: true },
    queue: { notify: true },
    work: { batchSize: 100, localConcurrency: 2, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 },
  },
  /** Ten tasks at once, each by itself: the result of a batch would be one for all of them. */
  large: {
    boss: {},
    queue: {},
    work: { batchSize: 1, localConcurrency: 10, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 },
  },
  shipped: { boss: {}, queue: {}, work: {} },
  /** The shortest heartbeat that it takes, and as much vigilance as it takes. */
  vigilant: {
    boss: { superviseIntervalSeconds: 1, monitorIntervalSeconds: 1, maintenanceIntervalSeconds: 1 },
    queue: { heartbeatSeconds: 10 },
    work: { pollingIntervalSeconds: 0.5 },
  },
  /** A thousand tasks in hand at once. */
  laden: { boss: {}, queue: {}, work: { batchSize: 1_000, localConcurrency: 1, pollingIntervalSeconds: 0.5 } },
};

const QUEUE = "bench";
const POOL = 20;

export async function open({ url, settings }) {
  const boss = new PgBoss({ connectionString: url, max: POOL, ...settings.boss });
  boss.on("error", () => {});
  let asking;
  let starting;
  const started = () => {
    starting ??= boss.start();
    return starting;
  };
  return {
    async prepare() {
      await started();
      await boss.createQueue(QUEUE, settings.queue);
    },
    async enqueue(input) {
      await started();
      return boss.send(QUEUE, input);
    },
    async enqueueMany(inputs) {
      await started();
      return boss.insert(
        QUEUE,
        inputs.map((data) => ({ data })),
      );
    },
    async unfinished() {
      asking ??= new pg.Pool({ connectionString: url, max: 1 });
      const { rows } = await asking.query("select count(*)::int as count from pgboss.job where state < 'completed'");
      return rows[0].count;
    },
    async work(handle, { concurrency } = {}) {
      await started();
      const { batchSize = 1, localConcurrency = 1 } = settings.work;
      const atOnce = concurrency === undefined ? batchSize : Math.ceil(concurrency / localConcurrency);
      await boss.work(QUEUE, settings.work, (jobs) => eachOf(jobs, handle, atOnce));
      return { stop: () => boss.offWork(QUEUE) };
    },
    close: () => boss.stop({ graceful: false }),
  };
}

/** A batch is one call of the handler: how many of it run at once is the handler's own affair. */
async function eachOf(jobs, handle, atOnce) {
  if (jobs.length === 1) return handle(jobs[0].data);
  let next = 0;
  const lane = async () => {
    while (next < jobs.length) {
      const running = handle(jobs[next++].data);
      if (running !== undefined) await running;
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, jobs.length) }, lane));
}
