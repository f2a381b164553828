/** Streams that cannot be written, under commands that have no tasks file, and under a user's own program. */
import { execFile, spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test, vi } from "vitest";
import { Alerts } from "../../src/alerts/alerts.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { openPipe } from "../support/pipe.ts";
import { everbeat, MAIN, projectWith, startEverbeat } from "./run-cli.ts";

vi.setConfig({ testTimeout: 120_000 });

function openFull(): number {
  const fd = openSync("/dev/full", "w");
  onTestFinished(() => closeSync(fd));
  return fd;
}

test("dev goes on with a full disk under both of its streams, and leaves with exit code 0", async () => {
  const { everbeat: api, database } = await openTestEverbeat();
  const full = openFull();
  const dev = startEverbeat(["dev", "--database", database.url], { stdout: full, stderr: full });
  await eventually(async () => (await api.replicas()).some(({ status }) => status === "online"), {
    within: 30_000,
  });
  dev.child.kill("SIGTERM");
  expect(await dev.ended).toMatchObject({ code: 0, signal: null });
});

test("status whose reader has gone exits with 0 and says nothing", async () => {
  const { database } = await openTestEverbeat();
  const pipe = openPipe();
  pipe.closeReader();
  const { code, stderr } = await everbeat(["status"], { database: database.url, stdout: pipe.writeEnd });
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
});

const PRINTED_AT_ONCE = "a line that is printed while the tasks are loaded\n".repeat(15_000);

test("what a command at work says last is read to its end: its reader is waited for", async () => {
  const { database } = await openTestEverbeat();
  const cwd = await projectWith({ "tasks.js": `process.stderr.write(${JSON.stringify(PRINTED_AT_ONCE)});` });
  // A reader of its own, which no test holds up.
  const script = `{ "$0" "$1" start tasks.js; echo $? > code; } 2>&1 >/dev/null | cat > printed`;
  const env = { ...process.env, DATABASE_URL: database.url };
  await promisify(execFile)("sh", ["-c", script, process.execPath, MAIN], { env, cwd });
  const printed = readFileSync(join(cwd, "printed"), "utf8");
  expect(printed.length).toBeGreaterThan(PRINTED_AT_ONCE.length);
  expect(printed.startsWith(PRINTED_AT_ONCE)).toBe(true);
  expect(printed.slice(PRINTED_AT_ONCE.length)).toMatch(/^✗ .*tasks\.js/);
  expect(readFileSync(join(cwd, "code"), "utf8")).toBe("1\n");
});

test("a command at work whose reader stands still leaves all the same, with the exit code that it would have", async () => {
  const { database } = await openTestEverbeat();
  const cwd = await projectWith({ "tasks.js": `process.stderr.write(${JSON.stringify(PRINTED_AT_ONCE)});` });
  const stderr = openPipe();
  const refused = await everbeat(["start", "tasks.js"], { database: database.url, cwd, stderr: stderr.writeEnd });
  expect(refused).toMatchObject({ code: 1, signal: null });
  expect(PRINTED_AT_ONCE).toContain(stderr.read());
});

test.each(["a full disk", "a reader that has gone"])(
  "the default logger leaves a user's program alone: %s",
  async (what) => {
    const { database } = await openTestEverbeat();
    const cwd = await projectWith({
      "program.js": `
      import { defineTask, Everbeat } from "everbeat";
      const task = defineTask({ name: "own", run: async (_input, { log }) => { log.error({}, "a line"); return "done"; } });
      const everbeat = await Everbeat.open({ database: process.env.DATABASE_URL, log: "debug" });
      await everbeat.work([task], { handleSignals: false });
      for (let round = 0; round < 3; round++) await everbeat.result(await everbeat.enqueue(task, null));
      await everbeat.close();
      console.log("all done");
    `,
    });
    const program = spawn(process.execPath, ["program.js"], {
      ...{ cwd, env: { ...process.env, DATABASE_URL: database.url } },
      stdio: ["ignore", "pipe", what === "a full disk" ? openFull() : "pipe"],
    });
    onTestFinished(() => void program.kill("SIGKILL"));
    program.stderr?.destroy();
    let printed = "";
    program.stdout?.on("data", (chunk: Buffer) => {
      printed += chunk.toString();
    });
    const code = await new Promise((resolve) => program.once("close", resolve));
    expect({ code, printed }).toEqual({ code: 0, printed: "all done\n" });
  },
);

test("a stalled reader of a user's own program neither keeps it from leaving nor makes it grow", async () => {
  const { database } = await openTestEverbeat();
  const cwd = await projectWith({
    "program.js": `
      import { setFlagsFromString } from "node:v8";
      import { runInNewContext } from "node:vm";
      import { defineTask, Everbeat } from "everbeat";
      const bytesKept = () => {
        setFlagsFromString("--expose-gc");
        runInNewContext("gc")();
        const { heapUsed, external } = process.memoryUsage();
        return heapUsed + external;
      };
      const task = defineTask({ name: "own", run: async (_input, { log }) => {
        for (let line = 0; line < 20_000; line++) {
          log.error({ line }, "x".repeat(1_000));
          if (line % 100 === 99) await new Promise((resume) => setImmediate(resume));
        }
        return bytesKept();
      } });
      const everbeat = await Everbeat.open({ database: process.env.DATABASE_URL, log: "info" });
      const dropped = new Promise((resolve) => everbeat.on("log.dropped", resolve));
      await everbeat.work([task], { handleSignals: false });
      const kept = [];
      for (let round = 0; round < 2; round++) kept.push(await everbeat.result(await everbeat.enqueue(task, null)));
      const { reason } = await dropped;
      await everbeat.close();
      console.log(JSON.stringify({ kept, reason }));
    `,
  });
  const stderr = openPipe();
  const program = spawn(process.execPath, ["program.js"], {
    ...{ cwd, env: { ...process.env, DATABASE_URL: database.url } },
    stdio: ["ignore", "pipe", stderr.writeEnd],
  });
  onTestFinished(() => void program.kill("SIGKILL"));
  let printed = "";
  program.stdout?.on("data", (chunk: Buffer) => {
    printed += chunk.toString();
  });
  // 20 MB in each round, of which nobody has read anything when it has left.
  expect(await new Promise((resolve) => program.once("close", resolve))).toBe(0);
  const { kept, reason } = JSON.parse(printed) as { kept: [number, number]; reason: string };
  expect(reason).toBe("its reader does not read");
  expect(kept[1] - kept[0]).toBeLessThan(10 * 1024 * 1024);
  expect(stderr.read()).toContain("worker started");
});

test("a program that only enqueues tells of its dropped log lines", async () => {
  const { everbeat: api, database } = await openTestEverbeat();
  const cwd = await projectWith({
    "program.js": `
      import { defineTask, Everbeat } from "everbeat";
      const log = () => { throw new Error("the disk is full"); };
      const everbeat = await Everbeat.open({
        ...{ database: process.env.DATABASE_URL, log: { debug: log, info: log, warn: log, error: log } },
      });
      everbeat.on("alert.raised", () => {});
      await everbeat.enqueue(defineTask({ name: "elsewhere", run: () => {} }));
      process.stdin.on("data", async () => {
        await everbeat.close();
        process.stdin.destroy();
      });
    `,
  });
  const program = spawn(process.execPath, ["program.js"], {
    ...{ cwd, env: { ...process.env, DATABASE_URL: database.url } },
    stdio: ["pipe", "inherit", "inherit"],
  });
  onTestFinished(() => void program.kill("SIGKILL"));
  const ofProgram = async () =>
    (await api.alerts.list()).find(({ subject }) => subject.startsWith(`process ${program.pid} `));
  // Each alert is a line in the log of whoever listens for alerts.
  const others = new Alerts({ database: api.database, onRefused: () => {} });
  onTestFinished(() => others.stop());
  const raise = async (round: number) => {
    await others.raise({ kind: "log-dropped", subject: `round ${round}`, message: "another process" });
    return await ofProgram();
  };
  let round = 0;
  const alert = await eventually(() => raise(round++), {
    within: 30_000,
    every: 200,
    what: "the alert of the program",
  });
  expect(alert?.message).toContain("the logger threw an error");
  program.stdin?.end("close\n");
  expect(await new Promise((resolve) => program.once("exit", resolve))).toBe(0);
  expect((await ofProgram())?.resolvedAt).not.toBeNull();
});
