/** `migrate: "later"`: a database that nobody has migrated is looked at first, and migrated when its owner says so. */
import { expect, onTestFinished, test } from "vitest";
import type { OpenOptions } from "../../src/config/open-options.ts";
import { readMigrations } from "../../src/database/migrations.ts";
import { readRoutines } from "../../src/database/routines.ts";
import { Everbeat } from "../../src/everbeat.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { createTestDatabase, openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const { everbeat, database } = await openTestEverbeat({ migrate: "later", poolSize: 2 }, undefined);
const names = readMigrations().map(({ name }) => name);
const idle = defineTask({ name: "idle", run: async () => {} });

test("what is missing is told, by the state of the schema and by the doctor, and nothing is made", async () => {
  expect(await everbeat.schema()).toEqual({
    ...{ schema: "everbeat", version: 0, wanted: names.length, pending: names, outdated: readRoutines().length },
    ...{
      needsMigration: true,
      problem: { code: "SCHEMA_MISSING", message: expect.stringContaining("everbeat migrate") },
    },
  });
  const findings = await everbeat.doctor();
  expect(findings.find(({ check }) => check === "schema")).toMatchObject({ mark: "warning" });
  expect(findings.find(({ check }) => check === "reaper")).toMatchObject({ mark: "skipped" });
  const schemas = await database.query("select from pg_namespace where nspname = 'everbeat'");
  expect(schemas).toEqual([]);
});

test.each<[string, () => unknown]>([
  ["enqueue", () => everbeat.enqueue(idle)],
  ["enqueueMany", () => everbeat.enqueueMany(idle, [undefined, undefined])],
  ["tasks.list", () => everbeat.tasks.list()],
  ["tasks.counts", () => everbeat.tasks.counts()],
  ["tasks.cancel", () => everbeat.tasks.cancel("0198c6f0-5a5e-7c3e-9d55-0b7f3c1f2a11")],
  ["alerts.list", () => everbeat.alerts.list()],
  ["queues.list", () => everbeat.queues.list()],
  ["replicas", () => everbeat.replicas()],
  ["services", () => everbeat.services()],
  ["follow", () => everbeat.follow("0198c6f0-5a5e-7c3e-9d55-0b7f3c1f2a11").next()],
  ["a transaction", () => everbeat.database.transaction((tx) => everbeat.enqueue(idle, undefined, { tx }))],
])("%s says before that that the schema is missing", async (_, call) => {
  await expect(call()).rejects.toMatchObject({ code: "SCHEMA_MISSING" });
});

test("what runs in the background waits for the schema", async () => {
  const other = await createTestDatabase();
  onTestFinished(() => other.drop());
  const errors: unknown[] = [];
  const log = { debug() {}, info() {}, warn() {}, error: (...words: unknown[]) => void errors.push(words) };
  const channel = { name: "ops", deliver: async () => {} };
  const opened = await Everbeat.open({
    ...{ database: other.url, migrate: "later", runsServices: true, alertChannels: [channel], log },
  });
  onTestFinished(() => opened.close());
  await opened.migrate();
  expect(await other.query("select name from everbeat.alert_channel")).toEqual([{ name: "ops" }]);
  await eventually(() => opened.services(), {
    until: ({ cluster }) => cluster.length > 0,
    what: "the cluster's turns",
  });
  expect(errors).toEqual([]);
});

test("a worker does not start before that", async () => {
  await expect(everbeat.work([idle], { handleSignals: false })).rejects.toMatchObject({ code: "SCHEMA_MISSING" });
});

test("it is migrated when that is asked for, step by step, and works then", async () => {
  const steps: string[] = [];
  await everbeat.migrate({ onProgress: ({ done, of, step }) => void steps.push(`${done} of ${of}: ${step}`) });
  expect(steps[0]).toBe(`0 of ${names.length + 1}: ${names[0]}`);
  expect(steps).toHaveLength(names.length + 1);
  expect(await everbeat.schema()).toMatchObject({ pending: [], outdated: 0, needsMigration: false, problem: null });
  const worker = await everbeat.work([idle], { handleSignals: false });
  await everbeat.result(await everbeat.enqueue(idle));
  await worker.stop();
});

test("what is missing of somebody else's stays what it is", async () => {
  const own = everbeat.database.query("select from theirs");
  await expect(own).rejects.toMatchObject({ code: "42P01" });
});

test("what is neither yes, no nor later is refused, with what it may be", async () => {
  const options = { database: database.url, migrate: "soon" } as unknown as OpenOptions;
  await expect(Everbeat.open(options)).rejects.toThrow('migrate: must be true, false or "later", not "soon"');
});
