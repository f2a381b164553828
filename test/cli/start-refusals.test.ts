import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { createTestDatabase } from "../support/database.ts";
import { everbeat as cli, projectWith } from "./run-cli.ts";
import { everbeatJsonHere } from "./run-here.ts";

const database = await createTestDatabase();
const at = { database: database.url };
afterAll(() => database.drop());

const GOOD = `import { defineTask } from "everbeat";\nexport const good = defineTask({ name: "good", run: async () => {} });\n`;

describe("start refuses", () => {
  test.each<[string, Record<string, string>, string[], string, RegExp]>([
    [
      "a file that is not there, with the one that was meant",
      { "tasks.ts": GOOD },
      ["task.ts"],
      "TASKS_FILE_MISSING",
      /no file task\.ts. Did you mean tasks\.ts\?/,
    ],
    ["a folder", {}, ["."], "TASKS_FILE_IS_FOLDER", / \. is a folder\. Give the path of a file in it/],
    [
      "a file that is no code",
      { "package.json": `{ "type": "module" }` },
      ["package.json"],
      "TASKS_FILE_NOT_CODE",
      / package\.json is neither JavaScript nor TypeScript\. Give the path of a file that exports tasks/,
    ],
    [
      "a file that throws",
      { "tasks.ts": `const x: number = 1;\nthrow new Error("not configured");\n` },
      ["tasks.ts"],
      "TASKS_FILE_BROKEN",
      /not configured\n.*tasks\.ts:2/,
    ],
    [
      "a file that is no TypeScript",
      { "tasks.ts": "export const = ;\n" },
      ["tasks.ts"],
      "TASKS_FILE_BROKEN",
      /tasks\.ts could not be loaded/,
    ],
    [
      "a file that is no JavaScript",
      { "tasks.js": "export const = ;\n" },
      ["tasks.js"],
      "TASKS_FILE_BROKEN",
      /SyntaxError/,
    ],
    [
      "a file with a wrong definition",
      { "tasks.ts": GOOD.replace("run:", "retyr: {}, run:") },
      ["tasks.ts"],
      "TASKS_FILE_BROKEN",
      /did you mean "retry"\?/,
    ],
    [
      "a file without tasks",
      { "tasks.ts": "export const answer = 42;\n" },
      ["tasks.ts"],
      "NO_TASKS",
      /found only answer \(number\)/,
    ],
    ["an empty file", { "tasks.ts": "" }, ["tasks.ts"], "NO_TASKS", /found nothing/],
    [
      "two tasks of one name",
      { "a.ts": GOOD, "b.ts": GOOD },
      ["a.ts", "b.ts"],
      "SAME_NAME",
      /Two tasks are named "good" \(in a\.ts and b\.ts\)/,
    ],
  ])("%s", async (_what, files, args, code, message) => {
    const cwd = await projectWith(files);
    const told = await cli(["start", ...args], { ...at, cwd });
    expect(told.stderr).toMatch(message);
    expect(told.stderr).not.toMatch(/node:internal|dist\/cli/);
    expect(told.code).toBe(1);
    const { answer } = await everbeatJsonHere(["start", ...args.map((file) => join(cwd, file))], at);
    expect(answer).toMatchObject({ error: { code } });
  });

  test("a file of a kind that Node does not know", async () => {
    const cwd = await projectWith({ "tasks.txt": "x" });
    const { code, stderr } = await cli(["start", "tasks.txt"], { ...at, cwd });
    expect(code).toBe(1);
    expect(stderr).toContain("tasks.txt is neither JavaScript nor TypeScript.");
  });

  test("an outdated schema, where it may not change it", async () => {
    const cwd = await projectWith({ "tasks.ts": GOOD });
    const { code, stderr } = await cli(["start", "tasks.ts", "--no-migrate"], { ...at, cwd });
    expect(code).toBe(1);
    expect(stderr).toContain("everbeat migrate");
  });
});
