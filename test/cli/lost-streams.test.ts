/** Streams that cannot be written, under commands that have no tasks file, and under a user's own program. */
import { execFile, spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test, vi } from "vitest";
import { reportError } from "../../src/cli/report-error.ts";
import { createScreen } from "../../src/cli/screen.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { openPipe } from "../support/pipe.ts";
import { everbeat, MAIN, projectWith, startEverbeat } from "./run-cli.ts";
import { printedDuring } from "./run-here.ts";

vi.setConfig({ testTimeout: 60_000 });

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

test("a database that is lost is told in plain words, without a stack", async () => {
  const lost = Object.assign(new Error("terminating connection due to administrator command"), { code: "57P01" });
  const { stdout, stderr } = await printedDuring(async () => {
    expect(reportError(lost, createScreen({ isJson: false }))).toBe(1);
  });
  expect(stdout + stderr).toContain("The database was lost: terminating connection");
  expect(stdout + stderr).not.toMatch(/ at |should not have/);
});
