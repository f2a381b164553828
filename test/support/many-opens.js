/** Opens Everbeat thirty times at once in one process, with a worker each, and closes it: nothing may be left, or complained of. */
import pg from "pg";
import { defineTask, Everbeat } from "../../dist/index.js";

const [url] = process.argv.slice(2);
const EVENTS = ["unhandledRejection", "uncaughtException", "SIGTERM", "SIGINT", "exit", "warning"];
const counts = (emitter, events) => Object.fromEntries(events.map((event) => [event, emitter.listenerCount(event)]));
const add = defineTask({ name: "add", run: async (n) => n + 1 });
const pool = new pg.Pool({ connectionString: url, max: 5 });

const before = { ...counts(process, EVENTS), ...counts(pool, ["error", "acquire", "release"]) };
// One after the other: the first makes the schema.
const opened = [];
for (let nth = 0; nth < 30; nth++) {
  const everbeat = await Everbeat.open({ database: nth % 2 ? pool : url, poolSize: 2, log: "warn" });
  opened.push(everbeat);
  if (nth < 15) await everbeat.work([add], { concurrency: 1, pollInterval: "1m" });
}
const results = await Promise.all(
  opened.map(async (everbeat, nth) => everbeat.result(await everbeat.enqueue(add, nth), { timeout: "30s" })),
);
await Promise.all(opened.map((everbeat) => everbeat.close()));
const after = { ...counts(process, EVENTS), ...counts(pool, ["error", "acquire", "release"]) };
await pool.end();
process.stdout.write(JSON.stringify({ results, before, after }));
