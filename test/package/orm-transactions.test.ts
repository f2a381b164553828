/** Drizzle's and Kysely's own transactions, through the adapters that docs/transactions.md shows. */
import { eq, type SQL, sql } from "drizzle-orm";
import { drizzle, type NodePgDatabase } from "drizzle-orm/node-postgres";
import { integer, pgTable, text } from "drizzle-orm/pg-core";
import { CompiledQuery, Kysely, PostgresDialect } from "kysely";
import pg from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { ClaimLostError, DuplicateTaskError, defineTask, type Everbeat, type Transaction } from "../../src/index.ts";
import { assertEnqueued, drain, openTestEverbeat } from "../../src/testing/index.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

const account = pgTable("account", { owner: text("owner").primaryKey(), cents: integer("cents").notNull() });

interface Tables {
  account: { owner: string; cents: number };
}

/** As in docs/transactions.md. */
function drizzleTransaction(tx: { execute(query: SQL): Promise<unknown> }): Transaction {
  return {
    async query(statement, values = []) {
      const parts = statement.split(/\$(\d+)/);
      const chunks = parts.map((part, i) => (i % 2 === 0 ? sql.raw(part) : sql.param(values[Number(part) - 1])));
      try {
        return await tx.execute(sql.join(chunks));
      } catch (error) {
        throw (error as Error).cause ?? error;
      }
    },
  };
}

/** As in docs/transactions.md. */
function kyselyTransaction(trx: { executeQuery(query: CompiledQuery): Promise<unknown> }): Transaction {
  return { query: (statement, values = []) => trx.executeQuery(CompiledQuery.raw(statement, values)) };
}

/** What both libraries have to be able to do, in the words of the tests below. */
interface Library {
  /** Sets the account and does the work in one transaction of the library's own. */
  change(owner: string, cents: number, work: (tx: Transaction) => Promise<unknown>): Promise<void>;
  read(owner: string): Promise<number | undefined>;
  /** What takes statements outside of any transaction. */
  readonly outside: Transaction;
}

describe.each(["drizzle", "kysely"])("a transaction of %s", (name) => {
  let database: TestDatabase;
  let everbeat: Everbeat;
  let pool: pg.Pool;
  let library: Library;
  beforeAll(async () => {
    database = await createTestDatabase();
    await database.query("create table account (owner text primary key, cents int not null)");
    pool = new pg.Pool({ connectionString: database.url });
    library =
      name === "drizzle"
        ? withDrizzle(drizzle(pool))
        : withKysely(new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) }));
  });
  afterAll(async () => {
    await pool.end();
    await database.drop();
  });
  beforeEach(async ({ onTestFinished }) => {
    everbeat = await openTestEverbeat({ database: database.url });
    onTestFinished(() => everbeat.close());
    await database.query("truncate account");
  });

  const notify = defineTask({ name: "notify", run: async (owner: string) => `told ${owner}` });

  test("that commits brings its rows and its tasks", async () => {
    await library.change("ada", 100, async (tx) => {
      await everbeat.enqueue(notify, "ada", { tx, uniqueKey: "ada", metadata: { $1: "not a parameter" } });
      await everbeat.enqueueMany(notify, ["bob", "eve"], { tx });
      await assertEnqueued(everbeat, notify, { times: 0 });
    });
    expect(await library.read("ada")).toBe(100);
    expect(await drain(everbeat, [notify])).toMatchObject([
      { result: "told ada" },
      { result: "told bob" },
      { result: "told eve" },
    ]);
  });

  test("that is rolled back brings neither", async () => {
    const undone = library.change("ada", 100, async (tx) => {
      await everbeat.enqueue(notify, "ada", { tx });
      throw new Error("changed my mind");
    });
    await expect(undone).rejects.toThrow("changed my mind");
    expect(await library.read("ada")).toBeUndefined();
    await assertEnqueued(everbeat, notify, { times: 0 });
  });

  test("learns of duplicates as a caller without one does", async () => {
    const first = await everbeat.enqueue(notify, "ada", { uniqueKey: "one" });
    await library.change("ada", 1, async (tx) => {
      expect(await everbeat.enqueue(notify, "ada", { tx, uniqueKey: "one" })).toBe(first);
      await expect(everbeat.enqueue(notify, "ada", { tx, uniqueKey: "one", onDuplicate: "refuse" })).rejects.toThrow(
        DuplicateTaskError,
      );
    });
    const refused = library.change("bob", 2, (tx) =>
      everbeat.enqueueMany(notify, ["bob"], { tx, options: { uniqueKey: "one", onDuplicate: "refuse" } }),
    );
    await expect(refused).rejects.toThrow(DuplicateTaskError);
    expect(await library.read("bob")).toBeUndefined();
  });

  test("completes the task together with its effects", async () => {
    const pay = defineTask({
      name: "pay",
      async run(owner: string, { claim }) {
        await library.change(owner, 42, async (tx) => {
          await claim.guard(tx);
          await claim.completeIn(tx, { paid: owner });
        });
      },
    });
    await everbeat.enqueue(pay, "ada");
    expect(await drain(everbeat, [pay])).toMatchObject([{ outcome: "completed", result: { paid: "ada" } }]);
    expect(await library.read("ada")).toBe(42);
  });

  test("that does not commit leaves the task uncompleted", async () => {
    const pay = defineTask({
      name: "pay",
      async run(owner: string, { claim }) {
        await library.change(owner, 42, async (tx) => {
          await claim.completeIn(tx, { paid: owner });
          throw new Error("the bank said no");
        });
      },
    });
    await everbeat.enqueue(pay, "ada");
    expect(await drain(everbeat, [pay])).toMatchObject([{ outcome: "failed", error: { message: "the bank said no" } }]);
    expect(await library.read("ada")).toBeUndefined();
  });

  test("that was never begun is refused: there is nothing to guard", async () => {
    const pay = defineTask({
      name: "pay",
      retry: { attempts: 1 },
      run: (_owner: string, { claim }) => claim.guard(library.outside),
    });
    await everbeat.enqueue(pay, "ada");
    expect(await drain(everbeat, [pay])).toMatchObject([{ outcome: "failed", error: { code: "NOT_IN_TRANSACTION" } }]);
  });

  test("of a lost claim is refused at once where that is known, else at commit", async () => {
    const seen: unknown[] = [];
    const takeAway = async (id: string) => {
      expect(await everbeat.tasks.retry(id, { force: true })).toMatchObject([{ outcome: "taken" }]);
    };
    const pay = defineTask({
      name: "pay",
      async run(when: "before" | "between", { claim, task }) {
        if (task.attempt > 1) return;
        if (when === "before") await takeAway(task.id);
        await library
          .change(when, 42, async (tx) => {
            await claim.guard(tx);
            if (when === "between") await takeAway(task.id);
          })
          .catch((error: unknown) => seen.push(error));
      },
    });
    await everbeat.enqueueMany(pay, ["before", "between"]);
    await drain(everbeat, [pay], { concurrency: 1 });
    expect(seen[0]).toBeInstanceOf(ClaimLostError);
    const refusal = seen[1] as { code?: string; cause?: { code?: string } };
    expect(refusal.code ?? refusal.cause?.code).toBe("EB001");
    expect(await library.read("before")).toBeUndefined();
    expect(await library.read("between")).toBeUndefined();
  });
});

function withDrizzle(db: NodePgDatabase): Library {
  return {
    change: (owner, cents, work) =>
      db.transaction(async (tx) => {
        await tx.insert(account).values({ owner, cents });
        await work(drizzleTransaction(tx));
      }),
    outside: drizzleTransaction(db),
    read: async (owner) => (await db.select().from(account).where(eq(account.owner, owner)))[0]?.cents,
  };
}

function withKysely(db: Kysely<Tables>): Library {
  return {
    change: (owner, cents, work) =>
      db.transaction().execute(async (trx) => {
        await trx.insertInto("account").values({ owner, cents }).execute();
        await work(kyselyTransaction(trx));
      }),
    outside: kyselyTransaction(db),
    read: async (owner) =>
      (await db.selectFrom("account").select("cents").where("owner", "=", owner).executeTakeFirst())?.cents,
  };
}
