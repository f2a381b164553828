// A real worker process whose heart is tried: its configuration is its argument (JSON), what happens in it goes to its
// parent as messages, and `{ release: true }` from the parent lets waiting handlers end.
import { appendFileSync } from "node:fs";
import pg from "pg";
import { defineTask, Everbeat } from "../../dist/index.js";

const { url, open = {}, work = {}, tasks = [], forward = [], file, poolSize } = JSON.parse(process.argv[2]);
const say = (message) => process.connected && process.send(message);
process.on("disconnect", () => process.kill(process.pid, "SIGKILL"));
const released = new Promise((resolve) => {
  process.on("message", (message) => message.release && resolve());
});
const pool = poolSize && new pg.Pool({ ...partsOf(url), max: poolSize });
pool?.on("error", () => {});

const pause = (ms) => new Promise((resume) => setTimeout(resume, ms));
const append = (context) =>
  appendFileSync(file, `${process.hrtime.bigint()} ${context.claim.id} ${context.task.attempt}\n`);
const begun = (context) => {
  say({ handler: "begun", taskId: context.task.id, attempt: context.task.attempt });
  context.signal.addEventListener("abort", () =>
    say({ handler: "aborted", taskId: context.task.id, code: context.signal.reason?.code }),
  );
};
const aborted = (signal) =>
  new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true }));

const HANDLERS = {
  /** Until the parent releases it or its signal fires. */
  async hold(_, context) {
    begun(context);
    await Promise.race([released, aborted(context.signal)]);
    return "held";
  },
  /** Until the parent releases it, whatever its signal says. */
  async deaf(_, context) {
    begun(context);
    await released;
    return "held";
  },
  async wait({ ms }, context) {
    begun(context);
    await pause(ms);
    return "waited";
  },
  async quick() {},
  /** Blocks the event loop. */
  async burn({ ms }, context) {
    begun(context);
    await pause(50);
    for (const until = performance.now() + ms; performance.now() < until; );
    return "burnt";
  },
  /** A line every 10 ms for as long as it runs. Only the first attempt misbehaves. */
  async append({ how = "obey" }, context) {
    begun(context);
    if (how === "block" && context.task.attempt === 1) {
      await pause(50);
      for (;;) {
        append(context);
        for (const until = performance.now() + 10; performance.now() < until; );
      }
    }
    const isDeaf = how === "ignore" && context.task.attempt === 1;
    for (let line = 0; line < 20 || context.task.attempt === 1; line++) {
      if (!isDeaf) context.signal.throwIfAborted();
      append(context);
      await pause(10);
    }
  },
  /** Takes its process along, in one way or another. */
  async die({ how = "kill" }, context) {
    begun(context);
    await pause(150);
    if (how === "exit") process.exit(3);
    if (how === "abort") process.abort();
    process.kill(process.pid, how === "segv" ? "SIGSEGV" : "SIGKILL");
    await released;
  },
  /** Keeps a connection of the pool that the worker itself lives on. */
  async hog(_, context) {
    const client = await pool.connect();
    begun(context);
    await Promise.race([released, aborted(context.signal)]).finally(() => client.release());
  },
};

function partsOf(address) {
  const { hostname, port, username, password, pathname } = new URL(address);
  return { host: hostname, port: Number(port), user: username, password, database: pathname.slice(1) };
}

const everbeat = await Everbeat.open({ database: pool ?? url, log: "silent", ...open });
for (const name of forward) everbeat.on(name, (event) => say(JSON.parse(JSON.stringify({ event: name, ...event }))));
const definitions = tasks.map(({ handler, ...options }) =>
  defineTask({ name: handler, ...options, run: HANDLERS[handler] }),
);
const worker = await everbeat.work(definitions, { pollInterval: 200, ...work });
say({ ready: true, replicaId: worker.replicaId });
