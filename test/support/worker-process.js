// A real process that works on a database. Its configuration is its argument (JSON); what happens in it goes to its
// parent as messages, and `{ release: true }` from the parent lets waiting handlers go on.
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { appendFileSync } from "node:fs";
import { kill } from "node:process";
import pg from "pg";
import { defineBatchTask, defineTask, Everbeat } from "../../dist/index.js";

const { url, open = {}, work, tasks, forward, effectOptions, file, poolSize } = JSON.parse(process.argv[2]);
const say = (message) => process.connected && process.send(message);
const dieWithParent = () => process.kill(process.pid, "SIGKILL");
process.on("disconnect", dieWithParent);

/** Where handlers leave their traces. */
const traces = new pg.Pool({ connectionString: url, max: 4, options: effectOptions });
traces.on("error", () => {});
/** The application's own, if the worker lives on one. */
const shared = poolSize && new pg.Pool({ ...partsOf(url), max: poolSize });
shared?.on("error", () => {});

const released = new Promise((resolve) => {
  process.on("message", (message) => message.release && resolve());
});
/** It is on record that this worker is leaving. */
async function untilDraining() {
  const isDraining = `select from everbeat.replica where id = $1 and status = 'draining'`;
  while ((await traces.query(isDraining, [worker.replicaId])).rowCount === 0) await pause(5);
}
const pause = (ms) => new Promise((resume) => setTimeout(resume, ms));
const aborted = (signal) =>
  new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true }));
const block = (ms) => {
  for (const until = performance.now() + ms; performance.now() < until; );
};
const effect = (to, { task, claim }, kind) =>
  to.query("insert into effect (task_id, claim_id, kind) values ($1, $2, $3)", [task.id, claim.id, kind]);
const append = ({ task, claim }) => appendFileSync(file, `${process.hrtime.bigint()} ${claim.id} ${task.attempt}\n`);

const begun = ({ task, signal }) => {
  say({ handler: "begun", taskId: task.id, attempt: task.attempt });
  signal.addEventListener("abort", () => say({ handler: "aborted", taskId: task.id, code: signal.reason?.code }));
};

/** The handler's own transaction: committed if the body does not throw. */
async function transact(body) {
  const client = await traces.connect();
  const ignore = () => {};
  client.on("error", ignore);
  let failure;
  try {
    await client.query("begin");
    await body(client);
    await client.query("commit");
  } catch (error) {
    failure = error;
    throw error;
  } finally {
    client.off("error", ignore);
    client.release(failure);
  }
}

/** Says how it went in the handler's own words, then fails or succeeds accordingly. */
async function reporting(context, body) {
  try {
    await body();
    say({ handler: "committed", taskId: context.task.id });
  } catch (error) {
    say({ handler: "refused", taskId: context.task.id, code: error.code, name: error.name });
    throw error;
  }
}

const HANDLERS = {
  async quick() {},
  async wait({ ms }, context) {
    begun(context);
    await pause(ms);
    return "waited";
  },
  /** Blocks the event loop. */
  async burn({ ms }, context) {
    begun(context);
    await pause(50);
    block(ms);
    return "burnt";
  },
  /** Until the parent releases it or its signal fires. */
  async hold(_, context) {
    begun(context);
    await Promise.race([released, aborted(context.signal)]);
    return "held";
  },
  /** Until the parent releases it, whatever its signal says; then it ends in the way that the input asks for. */
  async deaf({ how = "return" }, context) {
    if (how === "return") {
      begun(context);
      await released;
      say({ handler: "returns", taskId: context.task.id });
      return "held";
    }
    await reporting(context, () =>
      transact(async (tx) => {
        await effect(tx, context, how);
        if (how === "guard before") await context.claim.guard(tx);
        if (how === "completeIn before") await context.claim.completeIn(tx, how);
        begun(context);
        await released;
        if (how === "guard after") await context.claim.guard(tx);
        if (how === "completeIn after") await context.claim.completeIn(tx, how);
      }),
    );
    return how;
  },
  /** Until the parent releases it; its result is large, and cannot be made smaller. */
  async bulky({ bytes }, context) {
    begun(context);
    await released;
    return randomBytes(bytes / 2).toString("hex");
  },
  async note({ ms = 0 }, context) {
    await effect(traces, context, "noted");
    if (ms > 0) await pause(ms);
    return context.claim.id;
  },
  /** When it ran, by the database's clock. */
  async span({ ms = 0 }, context) {
    const ids = [context.task.id, context.claim.id];
    await traces.query("insert into span (task_id, claim_id) values ($1, $2)", ids);
    if (ms > 0) await pause(ms);
    await traces.query("update span set ended_at = clock_timestamp() where task_id = $1 and claim_id = $2", ids);
  },
  async completeIn(_, context) {
    await transact(async (tx) => {
      await effect(tx, context, "completed");
      await context.claim.completeIn(tx, context.claim.id);
    });
  },
  /** A line every 10 ms for as long as it runs. Only the first attempt misbehaves. */
  async append({ how = "obey" }, context) {
    begun(context);
    const isFirst = context.task.attempt === 1;
    if (how === "block" && isFirst) {
      await pause(50);
      for (;;) {
        append(context);
        block(10);
      }
    }
    const isDeaf = how === "ignore" && isFirst;
    for (let line = 0; line < 20 || isFirst; line++) {
      if (!isDeaf) context.signal.throwIfAborted();
      append(context);
      await pause(10);
    }
  },
  /** Says in a file, in a guarded transaction and in its outcome which task it ran under which claim. */
  async sign({ ms = 0, inTransaction = false }, context) {
    const signature = { task: context.task.id, claim: context.claim.id };
    appendFileSync(file, `${signature.task} ${signature.claim}\n`);
    await transact(async (tx) => {
      await effect(tx, context, "guarded");
      await context.claim.guard(tx);
    });
    await pause(ms);
    if (!inTransaction) return signature;
    await transact(async (tx) => {
      await effect(tx, context, "completed");
      await context.claim.completeIn(tx, signature);
    });
  },
  /** One step after the other, as its input says. Only the first attempt misbehaves. */
  async script({ steps }, context) {
    begun(context);
    for (const [step, ...given] of context.task.attempt === 1 ? steps : []) await STEPS[step](context, ...given);
    return "done";
  },
  /** Keeps a connection of the pool that the worker itself lives on. */
  async hog(_, context) {
    const client = await shared.connect();
    begun(context);
    await Promise.race([released, aborted(context.signal)]).finally(() => client.release());
  },
  /** Takes its process along, in one way or another. */
  async die({ how = "kill" }, context) {
    begun(context);
    await pause(150);
    if (how === "exit") process.exit(3);
    if (how === "exit-well") process.exit(0);
    if (how === "abort") process.abort();
    if (how.endsWith("SIGTERM")) process.once("SIGTERM", () => untilDraining().then(() => process.exit(0)));
    if (how === "wait, and exit at SIGTERM") {
      say({ handler: "waits", taskId: context.task.id });
      return new Promise(() => {});
    }
    if (how.startsWith("terminate")) process.kill(process.pid, "SIGTERM");
    if (how.startsWith("terminate, then")) await untilDraining();
    if (how.endsWith("exit")) process.exit(0);
    if (how === "import and terminate") kill(process.pid, "SIGTERM");
    if (how === "hang up") process.kill(process.pid, "SIGHUP");
    if (how === "stop") await leave(worker.stop());
    if (how === "close") await leave(everbeat.close());
    if (how === "close now") await leave(everbeat.close({ now: true }));
    if (how === "terminate-and-return" || how === "return") return;
    if (["terminate", "import and terminate", "hang up", "wait", "terminate, and exit at SIGTERM"].includes(how))
      return new Promise(() => {});
    process.kill(process.pid, how.endsWith("segv") ? "SIGSEGV" : "SIGKILL");
    await released;
  },
  /** Ends well, and leaves something behind that ends the process when the parent releases it. */
  async leaveExit({ code = 1 }, { task }) {
    void released.then(() => setTimeout(() => process.exit(code), 1));
    say({ handler: "returns", taskId: task.id });
  },
  async throwInTimer() {
    setTimeout(() => {
      throw new Error("thrown in a timer");
    }, 1);
    await pause(60_000);
  },
  async rejectUnawaited() {
    void Promise.reject(new Error("rejected and nobody awaits it"));
    await pause(60_000);
  },
};

const STEPS = {
  phase: (context, name, details) => context.phase(name, details),
  progress: (context, value, note) => context.progress(value, note),
  log: (context, text, times = 1) => {
    for (let line = 1; line <= times; line++) context.log.info({ line }, text);
  },
  pause: (_, ms) => pause(ms),
  hold: ({ signal }) => Promise.race([released, aborted(signal)]),
  block: (_, ms) => block(ms),
  wait: (_, ms) => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms),
  child: (_, ms) => void execFileSync("sleep", [String(ms / 1_000)]),
};

/** The process ends when that is done; a handler that waits for the end of its own worker waits for itself. */
async function leave(stopped) {
  await stopped;
  process.exit(0);
}

function partsOf(address) {
  const { hostname, port, username, password, pathname } = new URL(address);
  return { host: hostname, port: Number(port), user: username, password, database: pathname.slice(1) };
}

const everbeat = await Everbeat.open({ database: shared ?? url, log: "silent", ...open });
// How far it has come, for whoever waits in vain for it to be ready.
say({ step: "opened" });
for (const name of forward) {
  everbeat.on(name, ({ error, ...event }) => say({ event: name, ...event, error: error && String(error) }));
}
const beating = new Promise((resolve) => everbeat.on("heart.beating", resolve));
const definitions = tasks.map(({ handler, ...options }) => {
  const run = HANDLERS[handler];
  if (!options.batchSize) return defineTask({ name: handler, ...options, run });
  const runAll = (items) => Promise.all(items.map(({ input, context }) => run(input, context)));
  return defineBatchTask({ name: handler, ...options, run: runAll });
});
const worker = await everbeat.work(definitions, { pollInterval: 200, ...work });
say({ step: "working" });
// What the application itself does wrong, outside of any task, is none of the worker's business.
process.on("message", ({ blunder }) => {
  if (blunder === "throw") throw new Error("a blunder of the application");
  if (blunder === "exit") process.exit(4);
  if (blunder === "reject") void Promise.reject(new Error("a blunder of the application"));
});
// Closed in good order: from here on nothing of ours may keep the process alive.
process.on("message", async ({ close }) => {
  if (!close) return;
  await Promise.all([everbeat.close(), traces.end(), shared?.end()]);
  process.off("disconnect", dieWithParent);
  process.disconnect();
});
await beating;
say({ ready: true, replicaId: worker.replicaId });
