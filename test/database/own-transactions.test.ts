/** Transactions that Everbeat begins for its caller. */
import pg from "pg";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import type { Store } from "../../src/database/database.ts";
import { TransactionEndedError, TransactionRolledBackError } from "../../src/database/errors.ts";
import { Everbeat } from "../../src/everbeat.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { createCallersPool } from "../support/callers-pool.ts";
import { createTestDatabase } from "../support/database.ts";

const database = await createTestDatabase();
await database.query("create table ledger (cents integer not null)");
afterAll(() => database.drop());
const noop = defineTask({ name: "noop", run: (_input: unknown) => null });

const written = async () =>
  (await database.query<{ cents: number }>("select cents from ledger")).map((row) => row.cents);

describe.each(["an address", "a pool of the caller's"])("with %s", (given) => {
  async function open(): Promise<Everbeat> {
    await database.query("truncate ledger");
    const pool = createCallersPool({ connectionString: database.url, max: 2 });
    const everbeat = await Everbeat.open({ database: given === "an address" ? database.url : pool, log: "silent" });
    onTestFinished(() => everbeat.close());
    return everbeat;
  }

  test("one in which a statement failed, and the error was caught, is not taken for committed", async () => {
    const everbeat = await open();
    const committing = everbeat.database.transaction(async (tx) => {
      await tx.query("insert into ledger values ($1)", [100]);
      await tx.query("insert into ledger values (null)").catch(() => {});
      return "booked";
    });
    await expect(committing).rejects.toThrow(TransactionRolledBackError);
    await expect(committing).rejects.toMatchObject({
      code: "TRANSACTION_ROLLED_BACK",
      message: expect.stringContaining("savepoint"),
      cause: expect.objectContaining({ code: "23502" }),
    });
    expect(await written()).toEqual([]);
  });

  test("one that goes back to a savepoint commits, and its connection is as good as before", async () => {
    const everbeat = await open();
    for (const cents of [1, 2, 3]) {
      const booked = await everbeat.database.transaction(async (tx) => {
        await tx.query("insert into ledger values ($1)", [cents]);
        await tx.query("savepoint before");
        await tx.query("insert into ledger values (null)").catch(() => tx.query("rollback to before"));
        return "booked";
      });
      expect(booked).toBe("booked");
    }
    expect(await written()).toEqual([1, 2, 3]);
  });

  test("one that has ended takes no more statements, whether it committed or not, also while another has its connection", async () => {
    const everbeat = await open();
    const kept: Store[] = [];
    await everbeat.database.transaction(async (tx) => kept.push(tx));
    const gone = everbeat.database.transaction(async (tx) => {
      kept.push(tx);
      throw new Error("no");
    });
    await expect(gone).rejects.toThrow("no");
    const refuseAll = async () => {
      for (const tx of kept) {
        const late = tx.query("insert into ledger values ($1)", [1]);
        await expect(late).rejects.toThrow(TransactionEndedError);
        await expect(late).rejects.toMatchObject({
          code: "TRANSACTION_ENDED",
          message: expect.stringContaining("await everything inside the callback"),
        });
        await expect(everbeat.enqueue(noop, 1, { tx })).rejects.toMatchObject({ code: "TRANSACTION_ENDED" });
      }
    };
    await refuseAll();
    await everbeat.database.transaction(async (tx) => {
      await tx.query("insert into ledger values ($1)", [2]);
      await refuseAll();
    });
    expect(await written()).toEqual([2]);
  });

  test("a statement that nobody awaited is in it, if it was asked for before the callback ended, and refused otherwise", async () => {
    const everbeat = await open();
    const late: Promise<unknown>[] = [];
    await everbeat.database.transaction(async (tx) => {
      for (const cents of [1, 2]) {
        const first = tx.query("insert into ledger values ($1)", [cents]);
        const second = first.then(() => tx.query("insert into ledger values ($1)", [cents * 100]));
        late.push(second.catch((error: unknown) => error));
      }
    });
    expect(await Promise.all(late)).toMatchObject([{ code: "TRANSACTION_ENDED" }, { code: "TRANSACTION_ENDED" }]);
    expect(await written()).toEqual([1, 2]);
  });

  test("one without a function to run is refused with what is missing", async () => {
    const everbeat = await open();
    const transaction = everbeat.database.transaction as (work?: unknown) => Promise<unknown>;
    await expect(transaction()).rejects.toMatchObject({
      code: "INVALID_OPTIONS",
      message: expect.stringContaining("must be given a function (tx) => …, not undefined"),
    });
  });
});

describe("a client of the caller's that is in no transaction", () => {
  const opened = async () => {
    const everbeat = await Everbeat.open({ database: database.url, log: "silent" });
    const client = new pg.Client(database.url);
    await client.connect();
    onTestFinished(async () => {
      await client.end();
      await everbeat.close();
    });
    return { everbeat, client };
  };
  const tasks = async () =>
    Number((await database.query<{ n: string }>("select count(*) as n from everbeat.task"))[0]?.n);

  test("is refused by enqueue and enqueueMany, and nothing is written", async () => {
    const { everbeat, client } = await opened();
    const before = await tasks();
    const refusal = { code: "NOT_IN_TRANSACTION", message: expect.stringMatching(/"noop".*begin/s) };
    await expect(everbeat.enqueue(noop, 1, { tx: client })).rejects.toMatchObject(refusal);
    await expect(everbeat.enqueueMany(noop, [1, 2], { tx: client })).rejects.toMatchObject(refusal);
    await client.query("begin");
    await client.query("commit");
    await expect(everbeat.enqueue(noop, 1, { tx: client })).rejects.toMatchObject(refusal);
    expect(await tasks()).toBe(before);
  });

  test("is taken once it is in one, also where nobody has waited for its begin", async () => {
    const { everbeat, client } = await opened();
    for (const isAwaited of [true, false]) {
      const before = await tasks();
      const begun = client.query("begin");
      if (isAwaited) await begun;
      await everbeat.enqueue(noop, 1, { tx: client });
      await everbeat.enqueueMany(noop, [1, 2], { tx: client });
      expect(await tasks()).toBe(before);
      await client.query("commit");
      expect(await tasks()).toBe(before + 3);
    }
  });

  test("costs nothing more where it is in one", async () => {
    const { everbeat, client } = await opened();
    await client.query("begin");
    const asked: string[] = [];
    const query = client.query.bind(client) as (...args: unknown[]) => unknown;
    Object.assign(client, {
      query(...args: unknown[]) {
        asked.push(String(args[0]));
        return query(...args);
      },
    });
    await everbeat.enqueue(noop, 1, { tx: client });
    expect(asked).toHaveLength(1);
    await client.query("rollback");
  });
});
