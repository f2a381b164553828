/** SIGHUP, by itself and from a terminal that closes: a worker and a supervisor leave in good order, and no task is lost by it. */
import { spawn, spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { MAIN, projectWith, startEverbeat } from "../cli/run-cli.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { PRINTING_TASKS } from "../support/printing-tasks.ts";

vi.setConfig({ testTimeout: 60_000 });

const NEVER_TASK = `
  export const never = defineTask({ name: "never", run: (_, { signal }) =>
    new Promise((_, fail) => signal.addEventListener("abort", () => fail(signal.reason))) });
`;

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

/** Starts a worker, or a supervisor with two, in a terminal of its own. */
async function startInTerminal(more: string) {
  const { everbeat, database } = await openTestEverbeat();
  // The first shell ends with its terminal, as a user's does. The second one outlives it, to tell how the command ended.
  const cwd = await projectWith({
    "tasks.js": PRINTING_TASKS + NEVER_TASK,
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
  const wanted = more.includes("--processes") ? 2 : 1;
  await eventually(online, { until: (count) => count === wanted, within: 30_000 });
  return {
    everbeat,
    wanted,
    close: () => terminal.kill("SIGKILL"),
    signal: (name: NodeJS.Signals) => process.kill(Number(readFileSync(join(cwd, "pid"), "utf8")), name),
    untilEnded: () =>
      eventually(() => existsSync(code) && readFileSync(code, "utf8"), { within: 30_000, what: "its end" }),
  };
}

test.skipIf(!HAS_SCRIPT).each([
  ["one worker", ""],
  ["a supervisor", "--processes 2"],
  ["a supervisor that reads and writes elsewhere", "--processes 2 < /dev/null > log 2>&1"],
])("%s leaves cleanly when its terminal is closed", async (_, more) => {
  const { everbeat, wanted, close, untilEnded } = await startInTerminal(more);
  close();
  expect(await untilEnded()).toBe("0\n");
  expect((await everbeat.replicas()).map(({ status }) => status)).toEqual(Array(wanted).fill("offline"));
});

test.skipIf(!HAS_SCRIPT).each([
  ["one worker", ""],
  ["a supervisor", "--processes 2"],
])("the end of its terminal is the first wish to stop, and the next signal is the second: %s", async (_, more) => {
  const { everbeat, close, signal, untilEnded } = await startInTerminal(`${more} --shutdown-grace 10m`);
  const id = await everbeat.enqueue(defineTask({ name: "never", run: async () => {} }));
  await eventually(async () => (await everbeat.tasks.show(id)).state === "running");
  close();
  await eventually(async () => (await everbeat.replicas()).every(({ status }) => status === "draining"));
  signal("SIGTERM");
  await untilEnded();
  expect(await everbeat.tasks.show(id)).toMatchObject({ state: "pending", crashes: 0 });
});
