import pg from "pg";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { createTestDatabase, openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { commandsToTerminal } from "./printed.ts";
import { everbeat as cli, startEverbeat } from "./run-cli.ts";

const database = await createTestDatabase();
const migrated = await openTestEverbeat();
afterAll(() => database.drop());

test("dev works on example tasks until it is stopped", async () => {
  const dev = startEverbeat(["dev", "--database", database.url]);
  await dev.says("worker started with 3 tasks");
  await dev.says(/✓ hello completed after/);
  const greeting = await cli(["enqueue", "hello", '{"name": "you"}', "--wait"], { database: database.url });
  expect(greeting).toMatchObject({ code: 0, stdout: expect.stringContaining("Hello, you!") });
  dev.child.kill("SIGINT");
  const { code, stdout } = await dev.ended;
  expect(code).toBe(0);
  expect(stdout).toContain("everbeat enqueue hello");
  expect(stdout).toContain("worker stopped");
  expect(commandsToTerminal(stdout)).toEqual([]);
});

test("dev --json writes one JSON object per line", async () => {
  const dev = startEverbeat(["dev", "--database", database.url, "--json"]);
  await dev.says('"outcome":"completed"');
  dev.child.kill("SIGTERM");
  const { code, stdout } = await dev.ended;
  expect(code).toBe(0);
  const events = stdout
    .trimEnd()
    .split("\n")
    .map((line) => (JSON.parse(line) as { event: string }).event);
  expect(events).toContain("worker.started");
  expect(events.at(-1)).toBe("worker.stopped");
});

test("dev listens for silence by itself, also while its worker cannot join", async () => {
  const { everbeat, database: empty } = migrated;
  const client = new pg.Client(empty.url);
  await client.connect();
  onTestFinished(() => client.end());
  await client.query("begin");
  await client.query("lock table everbeat.replica in share mode");
  const dev = startEverbeat(["dev", "--database", empty.url]);
  const sweep = await eventually(() => everbeat.recovery.listening(), { within: 30_000, what: "a sweep" });
  expect(await everbeat.replicas()).toEqual([]);
  await client.query("rollback");
  await dev.says("worker started with 3 tasks");
  expect((await everbeat.replicas()).map(({ id }) => id)).not.toContain(sweep?.sweptBy);
  dev.child.kill("SIGINT");
  expect((await dev.ended).code).toBe(0);
});
