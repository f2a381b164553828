/**
 * An application with a pool of its own that it gives to Everbeat, as the documentation shows it: it listens for no errors.
 * What it does is told by its first argument; what comes of it is told to whoever started it.
 */
import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { CompiledQuery, Kysely, PostgresDialect } from "kysely";
import pg from "pg";
import { defineTask, Everbeat } from "../../dist/index.js";

const [part, url] = process.argv.slice(2);
const add = defineTask({ name: "add", run: async (n) => n + 1 });
const pool = new pg.Pool({ connectionString: url });
const everbeat = await Everbeat.open({ database: pool, log: "silent" });
const tell = (message) => process.send(message);

/** Open until the word comes, with a connection of the pool on which nothing is asked meanwhile. */
let goOn;
const word = new Promise((resolve) => {
  goOn = resolve;
});
const inTheMiddle = async () => {
  tell({ said: "in the middle" });
  await word;
};

const parts = {
  worker: () => everbeat.work([add], { handleSignals: false }),
  // All that it does is to enqueue, when it is told to.
  enqueuer: () => everbeat.enqueue(add, 0),
  async pg() {
    const client = await pool.connect();
    try {
      await client.query("begin");
      await everbeat.enqueue(add, 1, { tx: client });
      await inTheMiddle();
      await client.query("commit");
    } catch (error) {
      await client.query("rollback");
      throw error;
    } finally {
      client.release();
    }
  },
  drizzle: () =>
    drizzle(pool).transaction(async (tx) => {
      await tx.execute(sql`select 1`);
      await inTheMiddle();
    }),
  kysely: () =>
    new Kysely({ dialect: new PostgresDialect({ pool }) }).transaction().execute(async (trx) => {
      await trx.executeQuery(CompiledQuery.raw("select 1"));
      await inTheMiddle();
    }),
};

process.on("message", async (message) => {
  if (message === "go on") return goOn();
  try {
    tell({ said: "enqueued", id: await everbeat.enqueue(add, 1) });
  } catch (error) {
    tell({ said: "not enqueued", message: String(error) });
  }
});
const done = parts[part]();
if (part === "worker" || part === "enqueuer") {
  await done;
  tell({ said: "ready" });
} else {
  done.then(
    () => tell({ said: "committed" }),
    () => tell({ said: "refused" }),
  );
}
