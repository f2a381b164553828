/** A program that has closed Everbeat ends: nothing of ours is left that it would have to stay for. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { createMigratedDatabase } from "../support/database.ts";
import { isAlive } from "../support/processes.ts";

vi.setConfig({ testTimeout: 60_000 });

const PROGRAM = fileURLToPath(new URL("../support/short-program.js", import.meta.url));
const database = await createMigratedDatabase();
afterAll(() => database.drop());

/** What the program said, in one object, and how it ended. It is gone when the test is over. */
async function run(options: object): Promise<Record<string, unknown>> {
  const child = spawn(process.execPath, [PROGRAM, JSON.stringify({ url: database.url, ...options })], {
    stdio: ["ignore", "pipe", "ignore"],
    env: { ...process.env, NODE_OPTIONS: "" },
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  let said = "";
  child.stdout.on("data", (text: Buffer) => {
    said += text;
  });
  // Its last words are read by then, as they need not be when it exits.
  const closed = once(child, "close");
  const stayed = new Promise((resolve) => setTimeout(resolve, 40_000, ["stayed", null]).unref());
  const [code] = (await Promise.race([closed, stayed])) as [number | string | null];
  const lines = said.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line) as object]));
  return Object.assign({ code }, ...lines);
}

/** However busy the machine is: a loop that nothing holds open waits for nothing. */
const ENDS = { code: 0, left: [], waitedMs: 0 };
const DIES_IN_PROCESS = { runIn: "process", handler: "die", input: { how: "SIGKILL" } };

describe("a program ends as soon as close() has resolved", () => {
  test.each([
    ["that only enqueues", {}],
    ["that enqueues and listens for silence", { open: { runsServices: true } }],
    ["with a worker", { runIn: "inline" }],
    ["with a worker that was closed before its heart has beaten", { runIn: "inline", isAwaited: false }],
    ["with a worker that was told to leave by two signals", { runIn: "inline", signals: 2 }],
    ["with a worker on a pool of its own", { runIn: "inline", hasOwnPool: true }],
    ["with a thread", { runIn: "thread" }],
    ["with a process", { runIn: "process" }],
    ["with a thread whose task has failed", { runIn: "thread", handler: "throwOdd" }],
    ["with a process whose task has failed", { runIn: "process", handler: "throwOdd" }],
    ["with a thread that has died", { runIn: "thread", handler: "die", input: { how: "exit" } }],
    ["with a process that has died", DIES_IN_PROCESS],
    ["with a process that has died while its loop was blocked", { ...DIES_IN_PROCESS, seesItsEndLate: true }],
    ["with a thread that does not stop", { runIn: "thread", handler: "spin", isAwaited: false, now: true }],
    ["with a process that does not stop", { runIn: "process", handler: "never", isAwaited: false, now: true }],
    ["with a thread that was closed before it was ready", { runIn: "thread", isAwaited: false, now: true }],
    ["with a process that was closed before it was ready", { runIn: "process", isAwaited: false, now: true }],
  ])("%s", async (_, options) => {
    expect(await run(options)).toMatchObject(ENDS);
  });
});

describe("a program whose task has left a detached process behind, which holds on to standard error, ends all the same", () => {
  test.each(["return", "exit", "SIGKILL"])("(the task ends by %s)", async (how) => {
    const folder = mkdtempSync(join(tmpdir(), "everbeat-short-"));
    const file = join(folder, "lines");
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const input = { how, file, detached: true };
    const said = await run({ runIn: "process", handler: "leaveBehind", input });
    const left = said["leftBehind"] as number;
    onTestFinished(() => void process.kill(left, "SIGKILL"));
    expect(said).toMatchObject(ENDS);
    expect(isAlive(left)).toBe(true);
  });
});
