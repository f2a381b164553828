import { afterAll, expect, test } from "vitest";
import { createTestDatabase } from "../support/database.ts";
import { commandsToTerminal } from "./printed.ts";
import { everbeat as cli, startEverbeat } from "./run-cli.ts";

const database = await createTestDatabase();
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
