import { describe, expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { openTestEverbeat } from "../support/database.ts";
import { everbeat as cli, everbeatJson } from "./run-cli.ts";
import { everbeatHere as here, everbeatJsonHere as jsonHere } from "./run-here.ts";

const { everbeat, database } = await openTestEverbeat();
const at = { database: database.url };
const mail = defineTask({ name: "mail", queue: "mail", run: async () => {} });

describe("queues", () => {
  test("that are not there yet are said to be so", async () => {
    expect(await here(["queues"], at)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("There are no queues yet"),
    });
    expect((await jsonHere(["queues"], at)).answer).toEqual({ queues: [] });
  });

  test("are listed with what is in them", async () => {
    await everbeat.enqueueMany(mail, [undefined, undefined]);
    await everbeat.enqueue(mail, undefined, { delay: "1h" });
    const { code, stdout } = await here(["queues"], at);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^mail +▸ open +2 +1 +0 +0 +0 /m);
    const { answer } = await jsonHere(["queues"], at);
    expect(answer).toMatchObject({ queues: [{ name: "mail", ready: 2, delayed: 1, isPaused: false }] });
  });

  test("are paused and resumed", async () => {
    expect(await cli(["queues", "pause", "mail"], at)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("‖ paused"),
    });
    expect((await everbeat.queues.list())[0]?.isPaused).toBe(true);
    expect((await everbeatJson(["queues", "resume", "mail"], at)).answer).toMatchObject({ queue: { isPaused: false } });
  });

  test("are shown with the very rate that was set", async () => {
    const { stdout } = await here(["queues", "set", "mail", "--rate-limit", "100/1.005s"], at);
    expect(stdout).toContain("100 per 1.005s");
  });

  test("are limited, and freed of their limits", async () => {
    const { stdout } = await cli(["queues", "set", "mail", "--concurrency", "5", "--rate-limit", "100/1m"], at);
    expect(stdout).toContain("5 at once, 100 per 1m");
    const { answer } = await everbeatJson(
      ["queues", "set", "mail", "--concurrency", "none", "--rate-limit", "10/s"],
      at,
    );
    expect(answer).toMatchObject({ queue: { concurrency: null, rateLimit: { limit: 10, perMs: 1_000 } } });
  });

  test("with a new name are made, with a warning that it may be a slip", async () => {
    const { code, stderr } = await here(["queues", "pause", "mial"], at);
    expect(code).toBe(0);
    expect(stderr).toContain('"mial" is a new queue');
    expect(stderr).toContain("Did you mean mail?");
  });
});
