/** Transactions that Everbeat begins for its caller. */
import pg from "pg";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { TransactionRolledBackError } from "../../src/database/errors.ts";
import { Everbeat } from "../../src/everbeat.ts";
import { createTestDatabase } from "../support/database.ts";

const database = await createTestDatabase();
await database.query("create table ledger (cents integer not null)");
afterAll(() => database.drop());

const written = async () =>
  (await database.query<{ cents: number }>("select cents from ledger")).map((row) => row.cents);

describe.each(["an address", "a pool of the caller's"])("with %s", (given) => {
  async function open(): Promise<Everbeat> {
    await database.query("truncate ledger");
    const pool = new pg.Pool({ connectionString: database.url, max: 2 });
    onTestFinished(() => pool.end());
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
});
