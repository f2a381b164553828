/** BullMQ, on Redis or on PostgreSQL: the same calls, another backend. */
import { createPostgresBackend, Queue, Worker, withBackend } from "bullmq";

export const SETTINGS = {
  tuned: { worker: { concurrency: 100 } },
  large: { worker: { concurrency: 10 } },
  shipped: { worker: {} },
  /** Locks that last a second, looked at every second. */
  vigilant: { worker: { lockDuration: 1_000, stalledInterval: 1_000 } },
};

const QUEUE = "bench";
const POOL = 20;

export async function open({ url, settings }) {
  const address = new URL(url);
  const isRedis = address.protocol === "redis:";
  const backend = isRedis ? { Queue, Worker } : withBackend(createPostgresBackend);
  const connection = isRedis
    ? {
        host: address.hostname,
        port: Number(address.port),
        db: Number(address.pathname.slice(1)),
        maxRetriesPerRequest: null,
      }
    : { connectionString: url, max: POOL, migrate: true };
  const queue = new backend.Queue(QUEUE, { connection });
  queue.on("error", () => {});
  return {
    prepare: () => queue.waitUntilReady(),
    enqueue: (input) => queue.add("bench", input),
    enqueueMany: (inputs) => queue.addBulk(inputs.map((data) => ({ name: "bench", data }))),
    unfinished: () => queue.getJobCountByTypes("wait", "active", "delayed", "prioritized"),
    async work(handle, { concurrency } = {}) {
      const options = concurrency === undefined ? settings.worker : { ...settings.worker, concurrency };
      const worker = new backend.Worker(QUEUE, async (job) => handle(job.data), { connection, ...options });
      worker.on("error", () => {});
      await worker.waitUntilReady();
      return { stop: () => worker.close() };
    },
    close: () => queue.close(),
  };
}
