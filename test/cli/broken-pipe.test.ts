import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { openTestEverbeat } from "../support/database.ts";
import { MAIN, projectWith, startEverbeat } from "./run-cli.ts";

const run = promisify(execFile);
const { everbeat, database } = await openTestEverbeat();

test("a reader that leaves early is no error", async () => {
  // More than a pipe holds, so that the writer is still at it when the reader has gone.
  const script = `{ "$0" "$1" migrate --print --json; echo "exit $?" >&2; } | head -c 10 > /dev/null`;
  const { stderr } = await run("sh", ["-c", script, process.execPath, MAIN]);
  expect(stderr).toBe("exit 0\n");
});

test("a worker goes on working when nobody reads its log any more", async () => {
  const cwd = await projectWith({
    "tasks.js": `import { defineTask } from "everbeat";\nexport const hum = defineTask({ name: "hum", run: async () => "hm" });\n`,
  });
  const worker = startEverbeat(["start", "tasks.js", "--log-level", "debug"], { database: database.url, cwd });
  await worker.says("worker started");
  worker.child.stdout?.destroy();
  const hum = defineTask({ name: "hum", run: async () => "" });
  for (let round = 0; round < 3; round++)
    expect(await everbeat.result(await everbeat.enqueue(hum, undefined))).toBe("hm");
  worker.child.kill("SIGTERM");
  expect((await worker.ended).code).toBe(0);
});
