/** What is printed to be typed acts on the database that the command was given, wherever it is typed. */
import { execFileSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { openTestEverbeat } from "../support/database.ts";
import { repository } from "./run-cli.ts";
import { everbeatHere as here } from "./run-here.ts";

const { everbeat, database } = await openTestEverbeat();
const { url } = database;
const { password } = new URL(url);
const bare = url.replace(`:${password}@`, "@");
const secret = password === "" ? "" : "PGPASSWORD=… ";
const fails = defineTask({ name: "fails", retry: { attempts: 1 }, run: () => Promise.reject(new Error("no")) });

describe("a line that is printed to be typed", () => {
  test("names the database and the schema that the command was given", async () => {
    const { stdout } = await here(["doctor", "--schema", "nope", "--database", url]);
    expect(stdout).toContain(`$ ${secret}everbeat migrate --database ${bare} --schema nope\n`);
    if (password !== "") expect(stdout).not.toContain(password);
  });

  test("names them in an error too", async () => {
    const { stderr } = await here(["tasks", "list", "--schema", "nope", "--database", url]);
    expect(stderr).toContain(`$ ${secret}everbeat migrate --database ${bare} --schema nope\n`);
  });

  test("leaves out what comes from the environment", async () => {
    const { stderr } = await here(["tasks", "list", "--schema", "nope"], { database: url });
    expect(stderr).toContain("$ everbeat migrate --schema nope\n");
  });

  test("does there what was advised", async () => {
    const worker = await everbeat.work([fails]);
    const id = await everbeat.enqueue(fails);
    await expect(everbeat.result(id)).rejects.toThrow();
    await worker.stop();
    const { stdout } = await here(["explain", id, "--database", url]);
    const line = /\$ (.*everbeat tasks retry .*)$/m.exec(stdout)?.[1] ?? "";
    const typed = line.replace("…", `'${decodeURIComponent(password)}'`).replace("everbeat ", '"$NODE" "$MAIN" ');
    const env = { PATH: process.env["PATH"], NODE: process.execPath, MAIN: `${repository}dist/cli/main.js` };
    execFileSync("sh", ["-c", typed], { cwd: "/", env, encoding: "utf8" });
    expect((await everbeat.tasks.show(id)).state).toBe("pending");
  });
});
