/** SIGHUP, by itself and from a terminal that closes: a worker and a supervisor leave in good order, and no task is lost by it. */
import { spawn, spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { MAIN, projectWith, startEverbeat } from "../cli/run-cli.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { PRINTING_TASKS } from "../support/printing-tasks.ts";

vi.setConfig({ testTimeout: 60_000 });

const HAS_SCRIPT = spawnSync("script", ["--version"]).status === 0;

test("SIGHUP stops a single worker gracefully, however often it comes", async () => {
  const { database } = await openTestEverbeat();
  const cwd = await projectWith({ "tasks.js": PRINTING_TASKS });
  const worker = startEverbeat(["start", "tasks.js"], { database: database.url, cwd });
  await worker.says("worker started");
  worker.child.kill("SIGHUP");
  worker.child.kill("SIGHUP");
  expect(await worker.ended).toMatchObject({ code: 0, signal: null });
  expect(worker.stdout()).toContain("worker stopped");
});

test.skipIf(!HAS_SCRIPT).each([
  ["one worker", ""],
  ["a supervisor", "--processes 2"],
  ["a supervisor that reads and writes elsewhere", "--processes 2 < /dev/null > log 2>&1"],
])("%s leaves cleanly when its terminal is closed", async (_, more) => {
  const { everbeat, database } = await openTestEverbeat();
  // The first shell ends with its terminal, as a user's does. The second one outlives it, to tell how the command ended.
  const cwd = await projectWith({
    "tasks.js": PRINTING_TASKS,
    "told.sh": `trap "" HUP\nsh -c 'echo $$ > pid; exec "${process.execPath}" "${MAIN}" start tasks.js ${more}'\necho $? > code\n`,
  });
  const code = join(cwd, "code");
  const terminal = spawn("script", ["-qfc", "sh told.sh; true", "/dev/null"], {
    ...{
      cwd,
      stdio: ["pipe", "ignore", "ignore"],
      env: { ...process.env, SHELL: "/bin/sh", DATABASE_URL: database.url },
    },
  });
  onTestFinished(() => void terminal.kill("SIGKILL"));
  // Should it not leave by itself.
  onTestFinished(async () => {
    if (!existsSync(code)) process.kill(Number(readFileSync(join(cwd, "pid"), "utf8")), "SIGKILL");
    for (const { pid, status } of await everbeat.replicas()) if (status === "online") process.kill(pid, "SIGKILL");
  });
  const online = async () => (await everbeat.replicas()).filter(({ status }) => status === "online").length;
  const wanted = more === "" ? 1 : 2;
  await eventually(online, { until: (count) => count === wanted, within: 30_000 });
  terminal.kill("SIGKILL");
  await eventually(() => existsSync(code) && readFileSync(code, "utf8") !== "", { within: 30_000, what: "its end" });
  expect(readFileSync(code, "utf8")).toBe("0\n");
  expect((await everbeat.replicas()).map(({ status }) => status)).toEqual(Array(wanted).fill("offline"));
});
