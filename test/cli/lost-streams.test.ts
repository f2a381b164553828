/** Streams that cannot be written, under commands that have no tasks file, and under a user's own program. */
import { execFile, spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { promisify } from "node:util";
import { expect, onTestFinished, test, vi } from "vitest";
import { reportError } from "../../src/cli/report-error.ts";
import { createScreen } from "../../src/cli/screen.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { MAIN, projectWith, startEverbeat } from "./run-cli.ts";
import { printedDuring } from "./run-here.ts";

vi.setConfig({ testTimeout: 60_000 });

function openFull(): number {
  const fd = openSync("/dev/full", "w");
  onTestFinished(() => closeSync(fd));
  return fd;
}

test("dev goes on with a full disk under both of its streams, and leaves with exit code 0", async () => {
  const { everbeat, database } = await openTestEverbeat();
  const full = openFull();
  const dev = startEverbeat(["dev", "--database", database.url], { stdout: full, stderr: full });
  await eventually(async () => (await everbeat.replicas()).some(({ status }) => status === "online"), {
    within: 30_000,
  });
  dev.child.kill("SIGTERM");
  expect(await dev.ended).toMatchObject({ code: 0, signal: null });
});

test("status whose reader has gone exits with 0 and says nothing", async () => {
  const { database } = await openTestEverbeat();
  const script = `{ sleep 1; "$0" "$1" status; echo "exit $?" >&2; } | true`;
  const env = { ...process.env, DATABASE_URL: database.url };
  const { stderr } = await promisify(execFile)("sh", ["-c", script, process.execPath, MAIN], { env });
  expect(stderr).toBe("exit 0\n");
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
