/** A database that is lost while a command starts: told in plain words, without a stack, by the command itself and by the child of a supervisor. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { holding } from "../support/crash-database.ts";
import { openTestEverbeat, type TestDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { projectWith, startEverbeat } from "./run-cli.ts";

vi.setConfig({ testTimeout: 120_000 });

const TOLD =
  /^✗ The database was lost: terminating connection due to administrator command\. Try again when it is back/m;
const STACK = /node:internal|^\s+at |should not have/m;

/** From now on whoever opens the database waits for this. */
const holdOpenings = (database: TestDatabase) =>
  holding(database.url, "lock table everbeat.migration in access exclusive mode");

/** Ends the connection of the command that waits, as an administrator or a server that goes down does. */
async function loseDatabase(database: TestDatabase): Promise<void> {
  const waiting = `pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
  await eventually(async () => (await database.query(`select pg_terminate_backend(pid) from ${waiting}`)).length > 0, {
    within: 30_000,
  });
}

const TASKS = `
  import { existsSync } from "node:fs";
  import { defineTask } from "everbeat";
  // Only a child loads the tasks: it comes to the database when the test says so.
  if (process.send) while (!existsSync("go")) await new Promise((resume) => setTimeout(resume, 10));
  export const hum = defineTask({ name: "hum", run: async () => "hm" });
`;

test.each([
  ["a worker", []],
  ["a supervisor", ["--processes", "1"]],
] as const)("%s whose database is lost while it starts says so and exits with 1", async (_, more) => {
  const { database } = await openTestEverbeat();
  const cwd = await projectWith({ "tasks.js": TASKS });
  await holdOpenings(database);
  const command = startEverbeat(["start", "tasks.js", ...more], { database: database.url, cwd });
  await loseDatabase(database);
  const { code, stdout, stderr } = await command.ended;
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  expect(stderr).toMatch(TOLD);
  expect(stderr).not.toMatch(STACK);
});

test("a child whose database is lost while it starts says so, exits with 1, and is started again", async () => {
  const { database } = await openTestEverbeat();
  const cwd = await projectWith({ "tasks.js": TASKS });
  const supervisor = startEverbeat(["start", "tasks.js", "--processes", "1"], { database: database.url, cwd });
  await supervisor.says("child 1 started");
  const held = await holdOpenings(database);
  writeFileSync(join(cwd, "go"), "");
  await loseDatabase(database);
  await supervisor.says(/child 1, process \d+, exited with code 1, unasked/);
  await held.abandon();
  await supervisor.says("child 1 is ready", 30_000);
  supervisor.child.kill("SIGTERM");
  const { code, stderr } = await supervisor.ended;
  expect(code).toBe(0);
  expect(stderr.match(new RegExp(TOLD, "gm"))).toHaveLength(1);
  expect(stderr).not.toMatch(STACK);
});
