/** What a process loads: the schemas of operations, and the doctor, take their time and their memory, which only those pay who ask. */

import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { openTestEverbeat } from "../support/database.ts";
import { everbeat, MAIN, projectWith, repository, startEverbeat } from "./run-cli.ts";

const { database } = await openTestEverbeat();

/** Node writes there which files a process has loaded, its threads too. */
function coverageFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "everbeat-loaded-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function loadedFrom(folder: string): string[] {
  const reports = readdirSync(folder).map((file) => JSON.parse(readFileSync(join(folder, file), "utf8")));
  const urls = reports.flatMap(({ result }: { result: { url: string }[] }) => result.map(({ url }) => url));
  return [...new Set(urls)].filter((url) => url.startsWith("file:")).map((url) => fileURLToPath(url));
}

const having = (files: readonly string[], text: string) =>
  files.filter((file) => readFileSync(file, "utf8").includes(text));
const haveSchemas = (files: readonly string[]) => having(files, "ZodString");
/** In a check of the doctor's, and nowhere else. */
const haveDoctor = (files: readonly string[]) => having(files, "may not create the schema");

test("a worker of the command line loads none of them", async () => {
  const cwd = await projectWith({
    "tasks.js": `import { defineTask } from "everbeat"; export const idle = defineTask({ name: "idle", async run() {} });`,
  });
  const folder = coverageFolder();
  const env = { NODE_V8_COVERAGE: folder };
  const worker = startEverbeat(["start", "tasks.js", "--json"], { cwd, database: database.url, env });
  await worker.says("worker.started");
  worker.child.kill("SIGTERM");
  expect((await worker.ended).code).toBe(0);
  const loaded = loadedFrom(folder);
  expect(loaded).toContain(MAIN);
  expect(haveSchemas(loaded)).toEqual([]);
  expect(haveDoctor(loaded)).toEqual([]);
});

test("a program that imports the package loads none of them", async () => {
  const cwd = await projectWith({ "program.js": `import "everbeat";` });
  const folder = coverageFolder();
  execFileSync(process.execPath, ["program.js"], { cwd, env: { ...process.env, NODE_V8_COVERAGE: folder } });
  const loaded = loadedFrom(folder);
  expect(loaded).toContain(join(repository, "dist/index.js"));
  expect(haveSchemas(loaded)).toEqual([]);
});

test("a command that asks for an operation loads them, in one piece", async () => {
  const folder = coverageFolder();
  const { code } = await everbeat(["queues"], { database: database.url, env: { NODE_V8_COVERAGE: folder } });
  expect(code).toBe(0);
  const found = haveSchemas(loadedFrom(folder));
  expect(found).toHaveLength(1);
  expect(found[0]).toContain(join("dist", "parts"));
});

test("the doctor's checks are loaded where the doctor is asked", async () => {
  const folder = coverageFolder();
  const { code } = await everbeat(["doctor"], { database: database.url, env: { NODE_V8_COVERAGE: folder } });
  expect(code).toBe(0);
  expect(haveDoctor(loadedFrom(folder))).toHaveLength(1);
});
