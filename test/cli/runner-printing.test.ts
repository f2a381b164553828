/** What tasks print in a runner that leaves at once: it is printed, or counted as dropped, to the line. */
import { spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { openTestEverbeat } from "../support/database.ts";
import { projectWith, startEverbeat } from "./run-cli.ts";

vi.setConfig({ testTimeout: 120_000 });

interface Printing {
  readonly runIn: string;
  readonly lines: number;
  readonly awaitsCount: boolean;
  /** Its attempt fails and leaves a process, and its worker reads slowly, because its loop stands still again and again. */
  readonly isHurried?: boolean;
}

/** Runs one task that prints so many lines of a hundred bytes without a pause, and leaves its runner; returns what became of the lines. */
async function printAndLeave({ runIn, lines, awaitsCount, isHurried = false }: Printing) {
  const { database } = await openTestEverbeat();
  const cwd = await projectWith({
    "tasks.js": `
      import { spawn } from "node:child_process";
      import { defineTask } from "everbeat";
      export const print = defineTask({
        ...{ name: "print", module: import.meta.url, retry: { attempts: 1 } },
        runIn: "${runIn}",
        run: async (lines) => {
          if (${isHurried}) spawn("sleep", ["60"], { stdio: "ignore" });
          for (let line = 0; line < lines; line++) process.stdout.write(String(line).padEnd(99, ".") + "\\n");
          if (${isHurried}) throw new Error("as asked");
        },
      });
    `,
    "program.js": `
      import { Everbeat } from "everbeat";
      import { print } from "./tasks.js";
      const everbeat = await Everbeat.open({ database: process.env.DATABASE_URL, log: "silent" });
      const ended = new Promise((resolve) => everbeat.on("runner.ended", resolve));
      const back = new Promise((resolve) => everbeat.on("log.back", resolve));
      await everbeat.work([print], { handleSignals: false, runners: { recycleAfter: 1 } });
      const standStill = () => { for (const until = performance.now() + 300; performance.now() < until; ); };
      let standing;
      if (${isHurried}) everbeat.on("task.started", () => { standing = setInterval(standStill, 5); });
      void ended.then(() => clearInterval(standing));
      await everbeat.result(await everbeat.enqueue(print, ${lines})).catch(() => {});
      const { because, exitCode } = await ended;
      const dropped = ${awaitsCount} ? (await back).dropped : 0;
      await everbeat.close();
      process.stderr.write(JSON.stringify({ because, exitCode, dropped }));
    `,
  });
  // A file: whatever the worker is given to pass on, it can.
  const path = join(cwd, "printed");
  const file = openSync(path, "w");
  onTestFinished(() => closeSync(file));
  const env = { ...process.env, DATABASE_URL: database.url };
  const program = spawn(process.execPath, ["program.js"], { cwd, env, stdio: ["ignore", file, "pipe"] });
  onTestFinished(() => void program.kill("SIGKILL"));
  let told = "";
  program.stderr?.on("data", (chunk: Buffer) => {
    told += chunk.toString();
  });
  await new Promise((resolve) => program.once("close", resolve));
  const printed = readFileSync(path, "utf8").split("\n").slice(0, -1);
  expect(told).toMatch(/^\{/);
  return { ...(JSON.parse(told) as { because: string; exitCode: number; dropped: number }), printed };
}

async function expectAllPrinted(runIn: "thread" | "process"): Promise<void> {
  const { printed, ...end } = await printAndLeave({ runIn, lines: 8_000, awaitsCount: false });
  expect(end).toEqual({ because: "recycled", exitCode: 0, dropped: 0 });
  expect(printed).toHaveLength(8_000);
}

test("a thread that leaves has printed all that its tasks had printed", () => expectAllPrinted("thread"));

test("a process that leaves has printed all that its tasks had printed", () => expectAllPrinted("process"));

test.each(["thread", "process"])("a %s that leaves tells how many lines it has dropped", async (runIn) => {
  const { printed, dropped, ...end } = await printAndLeave({ runIn, lines: 300_000, awaitsCount: true });
  expect(end).toEqual({ because: "recycled", exitCode: 0 });
  expect(dropped).toBeGreaterThan(0);
  expect(printed.length + dropped).toBe(300_000);
});

test("a runner that is given little time to leave counts in that time what its worker does not read", async () => {
  const { printed, dropped, ...end } = await printAndLeave({
    ...{ runIn: "process", lines: 30_000, awaitsCount: true, isHurried: true },
  });
  expect(end).toEqual({ because: "left-behind", exitCode: 0 });
  expect(dropped).toBeGreaterThan(0);
  expect(printed.length + dropped).toBe(30_000);
});

test("a program that a task in a process starts with the streams of its runner can print as much as it likes, while the task prints too", async () => {
  const { everbeat, database } = await openTestEverbeat();
  const cwd = await projectWith({
    "tasks.js": `
      import { spawn } from "node:child_process";
      import { defineTask } from "everbeat";
      const printsBeside = async ({ lines }) => {
        const printing = setInterval(() => { console.log("a line of the task"); console.error("another"); }, 1);
        const script = \`seq 1 \${lines} && seq 1 \${lines} >&2\`;
        const program = spawn("sh", ["-c", script], { stdio: ["ignore", "inherit", "inherit"] });
        const code = await new Promise((resolve) => program.on("exit", resolve));
        clearInterval(printing);
        return code;
      };
      export const beside = defineTask({ name: "beside", runIn: "process", run: printsBeside });
    `,
  });
  const file = join(cwd, "printed");
  const output = openSync(file, "w");
  onTestFinished(() => closeSync(output));
  const streams = { stdout: output, stderr: output };
  const worker = startEverbeat(["start", "tasks.js"], { database: database.url, cwd, ...streams });
  const beside = defineTask({ name: "beside", run: async (_input: { lines: number }): Promise<number> => 0 });
  const id = await everbeat.enqueue(beside, { lines: 300_000 });
  expect(await everbeat.result(id, { timeout: 60_000 })).toBe(0);
  worker.child.kill("SIGTERM");
  expect((await worker.ended).code).toBe(0);
  const printed = readFileSync(file, "utf8").split("\n");
  expect(printed.filter((line) => /^\d+$/.test(line))).toHaveLength(600_000);
  expect(printed).toContain("a line of the task");
  expect(printed).toContain("another");
});
