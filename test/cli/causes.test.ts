/** The reason behind a failure is told wherever the failure is. */
import { beforeAll, expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { openTestEverbeat } from "../support/database.ts";
import { everbeat as cli } from "./run-cli.ts";
import { everbeatHere as here } from "./run-here.ts";

const { everbeat, database } = await openTestEverbeat();
const at = { database: database.url };
const caused = defineTask({
  name: "caused",
  run: () => {
    throw new Error("outer", { cause: new Error("inner") });
  },
});
const misused = defineTask({
  name: "misused",
  run: () => {
    throw new RangeError("no such order", { cause: new TypeError("not a list") });
  },
});
const aggregate = defineTask({
  name: "aggregate",
  run: () => Promise.any([Promise.reject(new Error("first")), Promise.reject(new Error("second"))]),
});
const fetching = defineTask({ name: "fetching", run: async () => (await fetch("http://localhost:9/")).status });
const unstorable = defineTask({
  name: "unstorable",
  run: () => ({
    deep: [
      {
        toJSON() {
          throw new Error("not today");
        },
      },
    ],
  }),
});

beforeAll(async () => {
  await everbeat.work([caused, misused, aggregate, fetching, unstorable], { handleSignals: false });
});

test("`enqueue --wait` says what is behind a failure", async () => {
  const { stderr, code } = await cli(["enqueue", "fetching", "--wait"], at);
  expect(code).toBe(1);
  expect(stderr).toContain("fetch failed (cause: bad port)");
});

test("so do `explain`, `tasks list` and `tasks show`, which shows the cause whole", async () => {
  const id = await everbeat.enqueue(caused);
  await expect(everbeat.result(id)).rejects.toThrow("outer (cause: inner)");
  for (const command of [
    ["explain", id],
    ["tasks", "list", "--name", "caused"],
  ])
    expect((await here(command, at)).stdout).toContain("outer (cause: inner)");
  const { stdout } = await here(["tasks", "show", id], at);
  expect(stdout).toMatch(/^ *error +TASK_FAILED: outer \(cause: inner\)$/m);
  expect(stdout).toMatch(/^Stack\n( {2}│ +at .*\n)+\nCause\n {2}│ Error: inner\n {2}│ +at /m);
});

test("an error and a cause without a code are told by their names", async () => {
  const id = await everbeat.enqueue(misused);
  await expect(everbeat.result(id)).rejects.toThrow("no such order");
  const { stdout } = await here(["tasks", "show", id], at);
  expect(stdout).toMatch(/^ *error +TASK_FAILED \(RangeError\): no such order \(cause: not a list\)$/m);
  expect(stdout).toMatch(/^Cause\n {2}│ TypeError: not a list\n/m);
});

test("the errors of an AggregateError are on record and shown", async () => {
  const id = await everbeat.enqueue(aggregate);
  await expect(everbeat.result(id)).rejects.toThrow("All promises were rejected (errors: first; second)");
  expect((await everbeat.tasks.show(id)).error?.errors?.map(({ message }) => message)).toEqual(["first", "second"]);
  expect((await here(["tasks", "show", id], at)).stdout).toMatch(/^Error 2 of 2\n {2}│ Error: second$/m);
});

test("a result whose toJSON() throws says where, and what it threw", async () => {
  const id = await everbeat.enqueue(unstorable);
  await expect(everbeat.result(id)).rejects.toThrow(
    /cannot be stored: it is not JSON: a toJSON\(\) throws at deep\[0\]\. .*\(cause: not today\)/,
  );
  expect((await everbeat.tasks.show(id)).error).toMatchObject({
    code: "RESULT_NOT_STORABLE",
    message: expect.stringContaining("a toJSON() throws at deep[0]"),
    cause: { message: "not today", stack: expect.stringContaining("toJSON") },
  });
});
