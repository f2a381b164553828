/** A worker whose role has lost a right: it is told what the database says, and not that the database cannot be reached. */
import { expect, onTestFinished, test } from "vitest";
import { Everbeat } from "../../src/everbeat.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { createTestDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { createRole } from "../support/roles.ts";

const add = defineTask({ name: "add", run: async (n: number) => n + 1 });

test("a right that is missing is told of once, in the database's words, and work goes on when it is back", async () => {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  const { role, url } = await createRole(database);
  const everbeat = await Everbeat.open({ database: url, log: "silent" });
  onTestFinished(() => everbeat.close({ now: true }));
  const told: string[] = [];
  everbeat.on("database.lost", ({ error }) => told.push(`lost: ${(error as Error).message}`));
  everbeat.on("database.refused", ({ doing, error }) => told.push(`${doing}: ${(error as Error).message}`));
  await everbeat.work([add], { handleSignals: false });
  await database.query(`revoke all on everbeat.ready from ${role}`);
  const denied = "permission denied for table ready";
  await eventually(() => told.includes(`claiming tasks: ${denied}`), { what: "the refusal to be told" });
  await database.query(`grant all on everbeat.ready to ${role}`);
  expect(await everbeat.result(await everbeat.enqueue(add, 1))).toBe(2);
  expect(told.filter((text) => text.startsWith("lost"))).toEqual([]);
  expect(told).toEqual([...new Set(told)]);
});
