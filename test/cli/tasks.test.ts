import { randomUUID } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { everbeat as cli, everbeatJson } from "./run-cli.ts";
import { everbeatHere as here, everbeatJsonHere as jsonHere } from "./run-here.ts";

interface Page {
  tasks: { id: string; state: string; name: string }[];
  next: string | null;
}
interface Done {
  tasks: { id: string; outcome: string }[];
  counts: Record<string, number>;
}

const { everbeat, database } = await openTestEverbeat();
const at = { database: database.url };

const greet = defineTask({ name: "greet", run: async (input: { name: string }) => `Hello, ${input.name}!` });
const explode = defineTask({
  name: "explode",
  queue: "danger",
  async run() {
    throw Object.assign(new Error("it blew up"), { code: "BOOM" });
  },
});
const idle = defineTask({ name: "idle", queue: "nobody-works-here", run: async () => {} });

let greeted = "";
let exploded = "";

beforeAll(async () => {
  await everbeat.work([greet, explode], { handleSignals: false, queues: ["default", "danger"] });
  greeted = await everbeat.enqueue(greet, { name: "Ada" });
  exploded = await everbeat.enqueue(explode, undefined);
  await everbeat.result(greeted);
  await everbeat.result(exploded).catch(() => {});
});

describe("tasks list", () => {
  test("shows tasks with whole ids, newest first", async () => {
    const { code, stdout } = await cli(["tasks", "list"], at);
    expect(code).toBe(0);
    expect(stdout).toMatch(new RegExp(`${exploded}  explode  ✗ failed +danger .* it blew up`));
    expect(stdout).toMatch(new RegExp(`${greeted}  greet +✓ completed +default .* took \\d+ms`));
    expect(stdout.indexOf(exploded)).toBeLessThan(stdout.indexOf(greeted));
  });

  test.each([
    ["state", ["--state", "failed"]],
    ["name", ["--name", "explode"]],
    ["queue", ["--queue", "danger"]],
    ["error code", ["--error-code", "BOOM"]],
    ["time", ["--since", "1h", "--name", "explode"]],
  ])("filters by %s", async (_by, filter) => {
    const { code, answer } = await jsonHere<Page>(["tasks", "list", ...filter], at);
    expect(code).toBe(0);
    expect(answer.tasks.map((task) => task.id)).toEqual([exploded]);
  });

  test("filters by replica, and by a time that excludes everything", async () => {
    const [replica] = await everbeat.replicas();
    const { answer } = await jsonHere<Page>(["tasks", "list", "--replica", String(replica?.id)], at);
    expect(answer.tasks.map((task) => task.id)).toContain(greeted);
    const none = await here(["tasks", "list", "--since", "2999-01-01T00:00:00Z"], at);
    expect(none).toMatchObject({ code: 0, stdout: "No task fits these filters.\n" });
  });

  test("goes from page to page", async () => {
    const ids = await everbeat.enqueueMany(idle, [undefined, undefined, undefined], { options: { queue: "paged" } });
    const list = ["tasks", "list", "--queue", "paged", "--limit", "2"];
    const first = await jsonHere<Page>(list, at);
    expect(first.answer.tasks.map((task) => task.id)).toEqual([ids[2], ids[1]]);
    expect((await here(list, at)).stdout).toContain(`add --before ${first.answer.next}`);
    const second = await jsonHere<Page>([...list, "--before", String(first.answer.next)], at);
    expect(second.answer).toMatchObject({ tasks: [{ id: ids[0] }], next: null });
  });
});

describe("tasks show", () => {
  test("shows input, result and attempts", async () => {
    const { code, stdout } = await cli(["tasks", "show", greeted], at);
    expect(code).toBe(0);
    for (const part of [greeted, "greet", "✓ completed", '{"name":"Ada"}', '"Hello, Ada!"', "Attempts"])
      expect(stdout).toContain(part);
  });

  test("shows why a task failed, with the stack of its handler", async () => {
    const { stdout } = await here(["tasks", "show", exploded], at);
    expect(stdout).toContain("BOOM: it blew up");
    expect(stdout).toMatch(/at .*tasks\.test\.ts/);
  });

  test("answers with the whole task as JSON", async () => {
    const { answer } = await everbeatJson<{ result: unknown; attempts: unknown[]; late: unknown[] }>(
      ["tasks", "show", greeted],
      at,
    );
    expect(answer).toMatchObject({
      id: greeted,
      result: "Hello, Ada!",
      attempts: [{ outcome: "completed" }],
      late: [],
    });
  });

  test("of a task that is not there fails", async () => {
    const id = randomUUID();
    expect(await here(["tasks", "show", id], at)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`no task ${id}`),
    });
    const { code, answer } = await jsonHere(["tasks", "show", id], at);
    expect({ code, answer }).toMatchObject({ code: 1, answer: { error: { code: "TASK_NOT_FOUND" } } });
  });

  test("of an id that is none is wrong usage", async () => {
    expect(await here(["tasks", "show", "42"], at)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("a UUID"),
    });
  });
});

describe("tasks cancel", () => {
  test("cancels by id, with a reason", async () => {
    const id = await everbeat.enqueue(idle, undefined);
    const { code, stdout } = await cli(["tasks", "cancel", id, "--reason", "called off"], at);
    expect(code).toBe(0);
    expect(stdout).toContain("1 cancelled");
    expect(await everbeat.tasks.show(id)).toMatchObject({ state: "cancelled", error: { message: "called off" } });
  });

  test("cancels by filters, and is content with finding nothing", async () => {
    const ids = await everbeat.enqueueMany(idle, [undefined, undefined], { options: { queue: "to-be-cancelled" } });
    const order = ["tasks", "cancel", "--queue", "to-be-cancelled", "--state", "pending"];
    const { code, answer } = await jsonHere<Done>(order, at);
    expect(code).toBe(0);
    expect(answer.counts).toEqual({ cancelled: 2 });
    expect(answer.tasks.map((task) => task.id).sort()).toEqual([...ids].sort());
    expect(await here(order, at)).toMatchObject({ code: 0, stdout: expect.stringContaining("nothing was done") });
  });

  test("shows some of many, and counts them all", async () => {
    await everbeat.enqueueMany(idle, Array.from({ length: 60 }), { options: { queue: "many" } });
    const { stdout } = await here(["tasks", "cancel", "--queue", "many"], at);
    expect(stdout.match(/it will not run/g)).toHaveLength(50);
    expect(stdout).toContain("and 10 more; --json lists them all\n\n60 cancelled");
  });

  test("fails where a named task is not there, and still cancels the others", async () => {
    const id = await everbeat.enqueue(idle, undefined);
    const { code, answer } = await jsonHere<Done>(["tasks", "cancel", id, randomUUID()], at);
    expect(code).toBe(1);
    expect(answer.counts).toEqual({ cancelled: 1, unknown: 1 });
  });
});

describe("tasks retry", () => {
  test("starts a failed task over", async () => {
    const id = await everbeat.enqueue(explode, undefined);
    await everbeat.result(id).catch(() => {});
    const { code, stdout } = await cli(["tasks", "retry", id], at);
    expect(code).toBe(0);
    expect(stdout).toContain("it starts over");
    await eventually(async () => (await everbeat.tasks.show(id)).attempts.length === 2, { what: "a second attempt" });
  });

  test("chooses by filters", async () => {
    const { code, answer } = await jsonHere<Done>(["tasks", "retry", "--error-code", "NO_SUCH_CODE"], at);
    expect({ code, answer }).toEqual({ code: 0, answer: { tasks: [], counts: {} } });
  });

  test("leaves a running task to its worker, unless it is forced", async () => {
    let release = () => {};
    const held = defineTask({
      name: "held",
      queue: "held",
      run: () =>
        new Promise<void>((resolve) => {
          release = resolve;
        }),
    });
    const worker = await everbeat.work([held], { handleSignals: false, queues: ["held"] });
    const id = await everbeat.enqueue(held, undefined);
    await eventually(async () => (await everbeat.tasks.show(id)).state === "running");

    const refused = await here(["tasks", "retry", id], at);
    expect(refused).toMatchObject({ code: 1, stdout: expect.stringContaining("add --force to take it away") });
    await everbeat.queues.pause("held");
    const { code, answer } = await jsonHere<Done>(["tasks", "retry", id, "--force"], at);
    expect({ code, answer }).toMatchObject({ code: 0, answer: { counts: { taken: 1 } } });
    release();
    await eventually(async () => (await everbeat.tasks.show(id)).late.length === 1, { what: "the refused outcome" });
    expect((await here(["tasks", "show", id], at)).stdout).toMatch(/Late .*\n.*OUTCOME.*\n +✓ completed/);
    await worker.stop({ now: true });
  });

  test("of a failed task whose record is missing leaves it as it is, and says so", async () => {
    const id = await everbeat.enqueue(explode, undefined);
    await everbeat.result(id).catch(() => {});
    await database.query("delete from everbeat.task where id = $1", [id]);
    expect(await cli(["tasks", "retry", id], at)).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/unrecorded +it has failed, and its record in the table "task" is missing/),
    });
    expect(await database.query("select from everbeat.ended where task_id = $1", [id])).toHaveLength(1);
    await database.query("delete from everbeat.ended where task_id = $1", [id]);
  });

  test("of a task that has completed fails", async () => {
    expect(await here(["tasks", "retry", greeted], at)).toMatchObject({
      code: 1,
      stdout: expect.stringContaining("1 ended"),
    });
  });
});

describe("a task that said something of itself", () => {
  test("is shown with it, and with its last log lines where it did not go well", async () => {
    const stumble = defineTask({
      name: "stumble",
      async run(_: undefined, { phase, progress, log }) {
        await phase("download", { platform: "cdn" });
        progress({ done: 3, total: 12 }, "page 3");
        log.warn({ today: true }, "slow");
        throw new Error("stumbled");
      },
    });
    await everbeat.work([stumble], { handleSignals: false });
    const id = await everbeat.enqueue(stumble);
    await everbeat.result(id).catch(() => {});
    const { stdout } = await here(["tasks", "show", id], at);
    expect(stdout).toMatch(/progress +download \{"platform":"cdn"\}, 25 %, 3 of 12 \(page 3\)/);
    expect(stdout).toMatch(/Last log lines\n +\d{4}-\S+ warn slow \{ today: true \}/);
  });
});
