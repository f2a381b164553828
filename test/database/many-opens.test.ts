/** A process that opens Everbeat many times, as tests and servers for many tenants do. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, expect, test } from "vitest";
import { createTestDatabase } from "../support/database.ts";

const database = await createTestDatabase();
afterAll(() => database.drop());

const run = (script: string) => {
  const path = fileURLToPath(new URL(`../support/${script}`, import.meta.url));
  const env = { ...process.env, NODE_OPTIONS: "" };
  return promisify(execFile)(process.execPath, [path, database.url], { env, timeout: 60_000 });
};

test("thirty at once complain of nothing, and leave no listener behind", async () => {
  // That the process ends by itself is part of it.
  const said = await run("many-opens.js");
  expect(said.stderr).toBe("");
  const { results, before, after } = JSON.parse(said.stdout);
  expect(results).toEqual(Array.from({ length: 30 }, (_, nth) => nth + 1));
  expect(after).toEqual(before);
}, 90_000);

test("a program that closes its worker at once has no timer left to stay for", async () => {
  expect(JSON.parse((await run("closed-at-once.js")).stdout)).toEqual([]);
}, 90_000);

test("a mistake of the application's own ends a process with two workers, as it would without them", async () => {
  const ending = run("two-workers-blunder.js");
  await expect(ending).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining("the application's own mistake"),
  });
}, 90_000);
