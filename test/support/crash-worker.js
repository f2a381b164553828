// A real process that opens a database and, unless told otherwise, works on it. Its configuration is its argument (JSON);
// what happens in it goes to its parent as messages, and `{ release: true }` from the parent lets waiting handlers go on.
import pg from "pg";
import { defineTask, Everbeat } from "../../dist/index.js";

const { url, open = {}, work, tasks = [], forward = [], effectOptions } = JSON.parse(process.argv[2]);
const say = (message) => process.connected && process.send(message);
const dieWithParent = () => process.kill(process.pid, "SIGKILL");
process.on("disconnect", dieWithParent);

const pool = new pg.Pool({ connectionString: url, max: 4, options: effectOptions });
pool.on("error", () => {});
const effect = (to, { task, claim }, kind) =>
  to.query("insert into effect (task_id, claim_id, kind) values ($1, $2, $3)", [task.id, claim.id, kind]);
const pause = (ms) => new Promise((resume) => setTimeout(resume, ms));

const released = new Promise((resolve) => {
  process.on("message", (message) => message.release && resolve());
});

/** The handler's own transaction: committed if the body does not throw. */
async function transact(body) {
  const client = await pool.connect();
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
  async note({ ms = 0 }, context) {
    await effect(pool, context, "noted");
    if (ms > 0) await pause(ms);
    return context.claim.id;
  },
  async nothing() {},
  async completeIn(_, context) {
    await transact(async (tx) => {
      await effect(tx, context, "completed");
      await context.claim.completeIn(tx, context.claim.id);
    });
  },
  /** Waits for the parent, deaf to its signal, and then ends in the way that the input asks for. */
  async hold({ how = "return" }, context) {
    context.signal.addEventListener("abort", () =>
      say({ handler: "aborted", taskId: context.task.id, code: context.signal.reason?.code }),
    );
    const untilReleased = async () => {
      say({ handler: "holding", taskId: context.task.id });
      await released;
    };
    if (how === "return") {
      await untilReleased();
      return "held";
    }
    await reporting(context, () =>
      transact(async (tx) => {
        await effect(tx, context, how);
        if (how === "guard before") await context.claim.guard(tx);
        if (how === "completeIn before") await context.claim.completeIn(tx, how);
        await untilReleased();
        if (how === "guard after") await context.claim.guard(tx);
        if (how === "completeIn after") await context.claim.completeIn(tx, how);
      }),
    );
    return how;
  },
  /** Ends when its signal fires. */
  async obey(_, { signal, task }) {
    say({ handler: "holding", taskId: task.id });
    await new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  },
  /** When it ran, by the database's clock. */
  async span({ ms = 0 }, context) {
    const ids = [context.task.id, context.claim.id];
    await pool.query("insert into span (task_id, claim_id) values ($1, $2)", ids);
    if (ms > 0) await pause(ms);
    await pool.query("update span set ended_at = clock_timestamp() where task_id = $1 and claim_id = $2", ids);
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

const everbeat = await Everbeat.open({ database: url, log: "silent", ...open });
for (const name of forward) {
  everbeat.on(name, ({ error, ...event }) => say({ event: name, ...event, error: error && String(error) }));
}
const definitions = tasks.map(({ handler, ...options }) =>
  defineTask({ name: handler, ...options, run: HANDLERS[handler] }),
);
const worker = work && (await everbeat.work(definitions, work));
// What the application itself does wrong, outside of any task, is none of the worker's business.
process.on("message", ({ blunder }) => {
  if (blunder === "throw") throw new Error("a blunder of the application");
  if (blunder === "reject") void Promise.reject(new Error("a blunder of the application"));
});
// Closed in good order: from here on nothing of ours may keep the process alive.
process.on("message", async ({ close }) => {
  if (!close) return;
  await Promise.all([everbeat.close(), pool.end()]);
  process.off("disconnect", dieWithParent);
  process.disconnect();
});
say({ ready: true, replicaId: worker?.replicaId });
