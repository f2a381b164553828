/** Whatever happens to standard output and standard error, the work goes on: lines are dropped and counted, and that is told. */
import { closeSync, openSync } from "node:fs";
import { expect, onTestFinished, test, vi } from "vitest";
import { defineTask, type Task } from "../../src/task/define-task.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { openPipe } from "../support/pipe.ts";
import {
  alertsOf,
  kept,
  NUMBERING_TASK,
  numbering,
  numbersIn,
  PRINTING,
  PRINTING_TASKS,
  printing,
} from "../support/printing-tasks.ts";
import { everbeat as cli, projectWith, startEverbeat } from "./run-cli.ts";

vi.setConfig({ testTimeout: 180_000 });

function open(path: string): number {
  const fd = openSync(path, "w");
  onTestFinished(() => closeSync(fd));
  return fd;
}

const prints = defineTask({ name: "prints", run: async (): Promise<unknown> => undefined });

const STREAMS = [
  ["standard output", "one worker", "stdout", []],
  ["standard error", "one worker", "stderr", []],
  ["standard output", "a supervisor", "stdout", ["--processes", "2"]],
  ["standard error", "a supervisor", "stderr", ["--processes", "2"]],
] as const;

test.each(STREAMS)("a full disk under %s of %s costs log lines and no task", async (_, __, stream, more) => {
  const { everbeat, database } = await openTestEverbeat();
  const cwd = await projectWith({ "tasks.js": PRINTING_TASKS });
  const worker = startEverbeat(["start", "tasks.js", "--log-level", "debug", ...more], {
    ...{ database: database.url, cwd },
    [stream]: open("/dev/full"),
  });
  for (const name of PRINTING) {
    const id = await everbeat.enqueue(printing(name), {});
    expect(await everbeat.result(id, { timeout: 60_000 })).toBeGreaterThan(0);
  }
  const alert = await eventually(async () =>
    (await everbeat.alerts.list({ open: true })).find(({ kind }) => kind === "log-dropped"),
  );
  expect(alert?.message).toContain("no space left");
  expect((await cli(["status"], { database: database.url })).stdout).toContain("Log lines are being dropped");
  worker.child.kill("SIGTERM");
  const { code, stdout, stderr } = await worker.ended;
  expect(code).toBe(0);
  // The stream that could be read has all that was for it, and no error of the other one but in words.
  const readable = stream === "stdout" ? stderr : stdout;
  expect(readable.match(/^last$|^printed$/gm)?.length).toBe(stream === "stdout" ? 6 : 9);
  expect(readable).not.toMatch(/node:internal|^\s+at /m);
  const told = readable.match(/log lines are being dropped: no space left on the device \(ENOSPC\)/g) ?? [];
  expect(told.length > 0).toBe(stream === "stderr");
});

test("a reader that comes back: the lines that it missed are counted, told once, and the alert is resolved", async () => {
  const { everbeat, database } = await openTestEverbeat();
  const cwd = await projectWith({ "tasks.js": NUMBERING_TASK });
  const worker = startEverbeat(["start", "tasks.js", "--json"], { database: database.url, cwd });
  await worker.says("worker started");
  worker.child.stderr?.pause();
  // Four times what is kept for the reader.
  await everbeat.result(await everbeat.enqueue(numbering, { from: 0, lines: 40_000 }), { timeout: 60_000 });
  const alerts = () => alertsOf(everbeat);
  await eventually(alerts, { until: ([first]) => first?.resolvedAt === null });
  worker.child.stderr?.resume();
  await worker.says("log.back", 30_000);
  const [alert, ...others] = await eventually(alerts, { until: ([first]) => first?.resolvedAt !== null });
  expect(alert?.message).toContain("its reader does not read");
  expect(others).toEqual([]);
  await everbeat.result(await everbeat.enqueue(numbering, { from: 40_000, lines: 1 }));
  worker.child.kill("SIGTERM");
  const { code, stdout, stderr } = await worker.ended;
  expect(code).toBe(0);
  const events = stdout.split("\n").filter((line) => /"event":"log\.(dropped|back)"/.test(line));
  const dropped = Number(/"dropped":(\d+)/.exec(events[1] ?? "")?.[1]);
  expect(events.map((line) => /log\.(?:dropped|back)/.exec(line)?.[0])).toEqual(["log.dropped", "log.back"]);
  expect(dropped).toBeGreaterThan(0);
  expect(numbersIn(stderr).length + dropped).toBe(40_001);
  expect(numbersIn(stderr).at(-1)).toBe(40_000);
});

test.each([
  ["one worker", []],
  ["a supervisor", ["--processes", "1"]],
] as const)("tasks of %s print into a pipe that nobody reads any more, and complete", async (_, more) => {
  const { everbeat, database } = await openTestEverbeat();
  const cwd = await projectWith({ "tasks.js": PRINTING_TASKS });
  const worker = startEverbeat(["start", "tasks.js", "--log-level", "debug", ...more], {
    ...{ database: database.url, cwd },
  });
  await worker.says("worker started");
  worker.child.stdout?.destroy();
  worker.child.stderr?.destroy();
  for (let round = 0; round < 2; round++)
    for (const name of PRINTING)
      await everbeat.result(await everbeat.enqueue(printing(name), { lines: 10 }), { timeout: 60_000 });
  const alert = await eventually(async () =>
    (await everbeat.alerts.list({ open: true })).find(({ kind }) => kind === "log-dropped"),
  );
  expect(alert?.message).toContain("nobody reads it any more");
  worker.child.kill("SIGTERM");
  expect((await worker.ended).code).toBe(0);
});

test("a reader that stands still neither keeps a worker from leaving nor makes it grow", async () => {
  const { everbeat, database } = await openTestEverbeat();
  const cwd = await projectWith({ "tasks.js": PRINTING_TASKS });
  const worker = startEverbeat(["start", "tasks.js"], { database: database.url, cwd });
  await worker.says("worker started");
  worker.child.stdout?.pause();
  worker.child.stderr?.pause();
  // 20 MB for each of the streams, twice: what is kept for the reader must not grow with what is written.
  const flood = { lines: 10_000, text: "x".repeat(1_000) };
  const answerOf = async <Input>(task: Task<Input>, input: Input) =>
    (await everbeat.result(await everbeat.enqueue(task, input), { timeout: 60_000 })) as number;
  for (const name of PRINTING) {
    const flooded = async () => ({
      where: await answerOf(printing(name), flood),
      worker: await answerOf(kept, undefined),
    });
    const first = await flooded();
    const second = await flooded();
    expect(Math.max(second.where - first.where, second.worker - first.worker)).toBeLessThan(20 * 1024 * 1024);
    expect(Math.max(second.where, second.worker)).toBeLessThan(100 * 1024 * 1024);
  }
  const alert = await eventually(async () =>
    (await everbeat.alerts.list({ open: true })).find(({ kind }) => kind === "log-dropped"),
  );
  expect(alert?.message).toContain("does not read");
  const exited = new Promise((resolve) => worker.child.once("exit", resolve));
  worker.child.kill("SIGTERM");
  expect(await exited).toBe(0);
});

test("a program that a task starts with the streams of its worker can print as much as it likes to a slow reader", async () => {
  const { everbeat, database } = await openTestEverbeat();
  const cwd = await projectWith({
    "tasks.js": `
      import { spawn } from "node:child_process";
      import { defineTask } from "everbeat";
      export const prints = defineTask({ name: "prints", async run(_, { log }) {
        const script = "read line; seq 1 60000 && seq 1 60000 >&2";
        const program = spawn("sh", ["-c", script], { stdio: ["pipe", "inherit", "inherit"] });
        const logging = setInterval(() => log.info("a line of the worker"), 5);
        await new Promise((resume) => program.on("spawn", resume));
        log.info("a line after the program has begun");
        console.error("another");
        program.stdin.end("go\\n");
        return new Promise((resolve) => program.on("exit", (code) => { clearInterval(logging); resolve(code); }));
      } });
    `,
  });
  // As a shell makes it; the pipes of Node are sockets.
  const pipe = openPipe();
  const streams = { stdout: pipe.writeEnd, stderr: pipe.writeEnd };
  startEverbeat(["start", "tasks.js"], { database: database.url, cwd, ...streams });
  const id = await everbeat.enqueue(prints);
  let lines = 0;
  // Each look waits for a while: the program fills the pipe again and again before it is read.
  await eventually(async () => {
    lines += pipe.read().split("\n").length - 1;
    return (await everbeat.tasks.show(id)).state === "completed";
  });
  expect(await everbeat.result(id)).toBe(0);
  expect(lines).toBeGreaterThan(100_000);
});

test("a supervisor whose reader stands still leaves with its children", async () => {
  const { everbeat, database } = await openTestEverbeat();
  const cwd = await projectWith({ "tasks.js": PRINTING_TASKS });
  const args = ["start", "tasks.js", "--processes", "2", "--log-level", "debug"];
  const supervisor = startEverbeat(args, { database: database.url, cwd });
  await supervisor.says("child 2 is ready");
  supervisor.child.stdout?.pause();
  const flood = { lines: 2_000, text: "x".repeat(1_000) };
  for (const name of PRINTING)
    await everbeat.result(await everbeat.enqueue(printing(name), flood), { timeout: 60_000 });
  const exited = new Promise((resolve) => supervisor.child.once("exit", resolve));
  supervisor.child.kill("SIGTERM");
  expect(await exited).toBe(0);
});

test("a command whose answer cannot be written says so in plain words", async () => {
  const { database } = await openTestEverbeat();
  const at = { database: database.url, stdout: open("/dev/full") };
  const { code, stderr } = await cli(["status"], at);
  expect(code).toBe(1);
  expect(stderr).toBe("✗ The answer could not be written to standard output: no space left on the device (ENOSPC).\n");
  expect((await cli(["status"], { database: database.url, stderr: open("/dev/full") })).code).toBe(0);
});
