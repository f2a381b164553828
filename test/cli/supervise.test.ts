/** `everbeat start --processes`: what is refused, and what people are shown. */
import { describe, expect, test } from "vitest";
import { openTestEverbeat } from "../support/database.ts";
import { everbeat, projectWith, startEverbeat } from "./run-cli.ts";
import { everbeatHere } from "./run-here.ts";

const { database } = await openTestEverbeat();
const at = { database: database.url };

describe("start --processes", () => {
  test.each([
    [["--processes", "0"], "must be a whole number from 1 to 256"],
    [["--processes", "many"], "must be a whole number from 1 to 256"],
    [["--crash-loop-after", "3"], "--crash-loop-after means nothing without --processes"],
    [["--healthy-after", "3s"], "--healthy-after means nothing without --processes"],
    [["--processes", "2", "--healthy-after", "soon"], "--healthy-after"],
  ])("refuses %j before anything starts", async (args, words) => {
    const { code, stderr } = await everbeatHere(["start", "tasks.js", ...args], at);
    expect(code).toBe(2);
    expect(stderr).toContain(words);
  });

  test("says once what is wrong with the tasks, instead of once for each process and again and again", async () => {
    const cwd = await projectWith({ "tasks.js": "export const nothing = 1;" });
    const { code, stdout, stderr } = await everbeat(["start", "tasks.js", "--processes", "3"], { ...at, cwd });
    expect(code).toBe(1);
    expect(stderr.match(/No task is exported by tasks\.js/g)).toHaveLength(1);
    expect(stdout).not.toContain("starts again");
  });

  test("shows which replica runs as which process", async () => {
    const cwd = await projectWith({
      "tasks.js": `import { defineTask } from "everbeat"; export const a = defineTask({ name: "a", run: async () => 1 });`,
    });
    const supervisor = startEverbeat(["start", "tasks.js", "--processes", "2"], { ...at, cwd });
    const replica = "[0-9a-f]{8}-[0-9a-f-]{27}";
    for (const child of [1, 2])
      await supervisor.says(new RegExp(`child ${child} is ready: process \\d+ is this replica  ${replica}`), 40_000);
    supervisor.child.kill("SIGINT");
    expect((await supervisor.ended).code).toBe(0);
    expect(supervisor.stdout()).toMatch(/child 2, process \d+, exited with code 0 {2}/);
  });
});
