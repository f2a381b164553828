/** What `tasks show` and `explain` say of a task that is put off by its own rate, and of one whose values are long. */
import { expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { everbeat as cli, everbeatJson } from "./run-cli.ts";
import { everbeatHere as here } from "./run-here.ts";

const { everbeat, database } = await openTestEverbeat();
const at = { database: database.url };
const echo = defineTask({ name: "echo", run: async (input: string) => input });

test("a task that is put off by its own rate says so", async () => {
  await everbeat.work([echo], { handleSignals: false });
  const rateLimit = { key: "slowkey", limit: 1, per: "1h" } as const;
  await everbeat.result(await everbeat.enqueue(echo, "first", { rateLimit }));
  const id = await everbeat.enqueue(echo, "second", { rateLimit });
  await eventually(async () => (await everbeat.tasks.show(id)).runAt > new Date(Date.now() + 1_800_000));
  const { stdout } = await cli(["explain", id], at);
  expect(stdout).toContain('It waits for its rate "slowkey": 1 per 1h.');
  expect(stdout).toMatch(/Its turn is in at most (59m( \d+s)?|1h)\./);
  expect(await everbeat.recovery.explain(id)).toMatchObject({ because: "key-rate-limit", isStuck: false });
  expect((await here(["tasks", "show", id], at)).stdout).toMatch(/^ *rate key +slowkey, 1 per 1h$/m);
  expect((await everbeat.tasks.show(id)).rateLimit).toEqual({ key: "slowkey", limit: 1, perMs: 3_600_000 });
});

test("a long input and a long result are cut on the screen, and whole in JSON", async () => {
  const long = "x".repeat(200_000);
  const id = await everbeat.enqueue(echo, long);
  await everbeat.result(id);
  const { stdout } = await here(["tasks", "show", id], at);
  expect(stdout.length).toBeLessThan(12_000);
  expect(stdout).toMatch(/^ *input +"x+… \(the first 4,000 of 200,002 characters; --json shows all\)$/m);
  expect(stdout).toMatch(/^ *result +"x+… \(the first 4,000 of 200,002 characters; --json shows all\)$/m);
  const { answer } = await everbeatJson<{ input: string; result: string }>(["tasks", "show", id], at);
  expect([answer.input, answer.result]).toEqual([long, long]);
});

test("`explain` and `tasks show` say the same of how long an attempt took", async () => {
  const id = await everbeat.enqueue(echo, "brief");
  await everbeat.result(id);
  await database.query(
    "update everbeat.ended set started_at = date_trunc('second', ended_at) - interval '1 second', ended_at = date_trunc('second', ended_at) - interval '0.9564 second' where task_id = $1",
    [id],
  );
  const told = /took (\d+ms)/.exec((await cli(["explain", id], at)).stdout)?.[1];
  expect(told).toBe("43ms");
  const { stdout } = await here(["tasks", "show", id], at);
  expect(stdout).toMatch(new RegExp(`^ +1 +✓ completed .* ${told}$`, "m"));
  expect(stdout).toContain(`took ${told}`);
});

test("an attempt that runs is said to have lasted so far", async () => {
  const hold = defineTask({
    name: "hold",
    run: (_input: unknown, { signal }) => new Promise((end) => signal.addEventListener("abort", end)),
  });
  await everbeat.work([hold], { handleSignals: false, queues: ["held"] });
  const id = await everbeat.enqueue(hold, undefined, { queue: "held" });
  await eventually(async () => (await everbeat.tasks.show(id)).state === "running");
  expect((await here(["tasks", "show", id], at)).stdout).toMatch(/^ +1 +● running .* \d\S* so far$/m);
  await everbeat.tasks.cancel(id);
});
