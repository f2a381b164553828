/** A process of one system: it opens its database and does what the bench tells it, through the system's adapter. */
import { msSince, nowNs } from "./clock.js";
import { counting, createTally, HANDLERS } from "./handlers.js";
import { recordsOf } from "./records.js";

const REPORT_EVERY_MS = 5;
const [adapterPath] = process.argv.slice(2);
const tally = createTally();
let session;
let worker;

const ORDERS = {
  /** Returns the settings that the variant stands for, for the record. */
  async open({ url, variant, changes }) {
    const { open, SETTINGS } = await import(adapterPath);
    const settings = { ...SETTINGS[variant ?? Object.keys(SETTINGS)[0]], ...changes };
    session = await open({ url, settings });
    return settings;
  },
  prepare: () => session.prepare(),
  unfinished: () => session.unfinished(),
  /** A question that only some adapters know. */
  ask: ({ question }) => session[question](),
  latencies: () => tally.latenciesMs,
  async work({ handler, ...options }) {
    report();
    worker = await session.work(counting(HANDLERS[handler](tally), tally), options);
  },
  stop: () => worker.stop(),
  close: () => session.close(),

  /** In batches, from so many callers at once; each input of so many bytes, if that is said. Returns how long it took. */
  async enqueueMany({ count, batch = 1_000, callers = 2, bytes, options }) {
    const records = bytes === undefined ? {} : { records: recordsOf(bytes) };
    const startedNs = nowNs();
    let next = 0;
    const caller = async () => {
      while (next < count) {
        const from = next;
        next = Math.min(count, from + batch);
        const inputs = Array.from({ length: next - from }, (_, index) => ({ n: from + index, ...records }));
        await session.enqueueMany(inputs, options);
      }
    };
    await Promise.all(Array.from({ length: callers }, caller));
    return msSince(startedNs);
  },

  /** One by one, each caller waiting for its answer. Returns how many and how long. */
  async enqueueFor({ ms, callers }) {
    const startedNs = nowNs();
    let count = 0;
    const caller = async () => {
      while (msSince(startedNs) < ms) {
        await session.enqueue({ n: count });
        count++;
      }
    };
    await Promise.all(Array.from({ length: callers }, caller));
    return { count, ms: msSince(startedNs) };
  },

  /** Evenly, whether or not the last call has been answered. Each input carries the moment of the call. */
  async enqueueAtRate({ perSecond, count }) {
    const startedNs = nowNs();
    const calls = [];
    for (let n = 0; n < count; n++) {
      const waitMs = (n * 1000) / perSecond - msSince(startedNs);
      if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
      calls.push(session.enqueue({ n, at: nowNs() }));
    }
    await Promise.all(calls);
  },
};

process.on("message", async ({ id, order, with: given }) => {
  try {
    process.send({ id, value: await ORDERS[order](given ?? {}) });
  } catch (error) {
    process.send({ id, error: error?.stack ?? String(error) });
  }
});
process.on("disconnect", () => process.exit(0));
process.send({ ready: true });

/** Only while something changes. */
function report() {
  let sent = -1;
  setInterval(() => {
    if (tally.handled + tally.started === sent) return;
    sent = tally.handled + tally.started;
    const { started, handled, firstNs, lastNs } = tally;
    process.send({ tally: { started, handled, firstNs, lastNs } });
  }, REPORT_EVERY_MS);
}
