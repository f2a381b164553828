/** The line at the foot of a terminal that says how far a long order has come: drawn on a real terminal, and gone at the end. */
import { spawn, spawnSync } from "node:child_process";
import { expect, onTestFinished, test, vi } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { openTestEverbeat } from "../support/database.ts";
import { MAIN } from "./run-cli.ts";

vi.setConfig({ testTimeout: 120_000 });

const HAS_SCRIPT = spawnSync("script", ["--version"]).status === 0;
const WIPE = "\r\x1b[2K";
const many = defineTask({ name: "many", run: async () => {} });

/** All that the command sends to the terminal at which it runs. */
async function atTerminal(words: string, database: string): Promise<string> {
  const { NO_COLOR: _no, FORCE_COLOR: _force, ...rest } = process.env;
  const env = { ...rest, TERM: "xterm", SHELL: "/bin/sh", DATABASE_URL: database };
  const terminal = spawn("script", ["-qefc", `"${process.execPath}" "${MAIN}" ${words}`, "/dev/null"], {
    ...{ env, stdio: ["ignore", "pipe", "inherit"] },
  });
  onTestFinished(() => void terminal.kill("SIGKILL"));
  let printed = "";
  terminal.stdout.setEncoding("utf8").on("data", (text: string) => {
    printed += text;
  });
  expect(await new Promise((resolve) => terminal.once("close", resolve))).toBe(0);
  return printed;
}

/** What is left to be seen on the line of the cursor after each line that was wiped. */
function seenAtLast(printed: string): string {
  return printed
    .split("\n")
    .map((line) => line.slice(line.lastIndexOf(WIPE) < 0 ? 0 : line.lastIndexOf(WIPE) + WIPE.length))
    .join("\n");
}

test.skipIf(!HAS_SCRIPT)(
  "cancel and retry of many tasks say how far they have come, and leave only the answer",
  async () => {
    const { everbeat, database } = await openTestEverbeat();
    await everbeat.enqueueMany(many, Array(1_200).fill(undefined));
    for (const [words, outcome] of [
      ["tasks retry --name many --state pending", "1,200 due"],
      ["tasks cancel --name many", "1,200 cancelled"],
    ] as const) {
      const printed = await atTerminal(words, database.url);
      for (const progress of ["500 of 1,200 tasks", "1,000 of 1,200 tasks"]) expect(printed).toContain(progress);
      expect(printed.indexOf("500 of")).toBeLessThan(printed.indexOf("1,000 of"));
      const left = seenAtLast(printed);
      expect(left.trimEnd().split("\n").at(-1)).toContain(outcome);
      expect(left).not.toContain("of 1,200 tasks");
    }
  },
);
