import { beforeAll, describe, expect, test } from "vitest";
import { ENQUEUE_SHAPE } from "../../src/queue/enqueue-options.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { openTestEverbeat } from "../support/database.ts";
import { everbeat as cli, everbeatJson } from "./run-cli.ts";
import { everbeatHere as here, everbeatJsonHere as jsonHere } from "./run-here.ts";

const { everbeat, database } = await openTestEverbeat();
const at = { database: database.url };

const add = defineTask({
  name: "add",
  queue: "sums",
  priority: 7,
  async run({ a, b }: { a: number; b: number }) {
    if (a === 0) throw Object.assign(new Error("nothing to add to"), { code: "NOTHING" });
    return a + b;
  },
});

interface Enqueued {
  id: string;
  queue: string;
  wasThere: boolean;
  result?: unknown;
}

beforeAll(async () => {
  await everbeat.work([add], { handleSignals: false });
});

describe("enqueue", () => {
  test("says the id of the task", async () => {
    const { code, stdout, stderr } = await cli(["enqueue", "add", '{"a": 1, "b": 2}'], at);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const id = /^✓ add enqueued: ([0-9a-f-]{36})\n$/.exec(stdout)?.[1];
    expect(await everbeat.result(String(id))).toBe(3);
  });

  test("takes queue and priority from the definition that a worker has stored", async () => {
    const { answer } = await jsonHere<Enqueued>(["enqueue", "add", '{"a": 1, "b": 2}'], at);
    expect(answer.queue).toBe("sums");
    expect(await everbeat.tasks.show(answer.id)).toMatchObject({ queue: "sums", priority: 7, input: { a: 1, b: 2 } });
  });

  test("waits for the result", async () => {
    const { code, stdout } = await cli(["enqueue", "add", '{"a": 20, "b": 22}', "--wait"], at);
    expect(code).toBe(0);
    expect(stdout.trimEnd().split("\n").at(-1)).toBe("42");
    const { answer } = await everbeatJson<Enqueued>(["enqueue", "add", '{"a": 20, "b": 22}', "--wait"], at);
    expect(answer.result).toBe(42);
  });

  test("fails with the task that it waits for", async () => {
    const failing = ["enqueue", "add", '{"a": 0, "b": 0}', "--wait"];
    expect(await here(failing, at)).toMatchObject({ code: 1, stderr: expect.stringContaining("nothing to add to") });
    const { code, answer } = await jsonHere(failing, at);
    expect({ code, answer }).toMatchObject({ code: 1, answer: { error: { code: "NOTHING" } } });
  });

  test("says when the task that has its key is no longer on record", async () => {
    const keyed = ["--unique-key", "once", "--unique-over", "completed", "--unique-for", "30d"];
    const words = ["enqueue", "add", '{"a": 1, "b": 2}', ...keyed];
    const { answer } = await jsonHere<Enqueued>([...words, "--wait"], at);
    await database.query("update everbeat.ended set ended_at = now() - interval '8 days' where task_id = $1", [
      answer.id,
    ]);
    await database.query("select everbeat.purge_ended(604800000, null, 100)");
    const again = await here(words, at);
    expect(again).toMatchObject({ code: 0, stderr: "" });
    expect(again.stdout).toContain(
      `was there already under this key, and its record has been removed since: ${answer.id}`,
    );
    expect((await here([...words, "--wait"], at)).stderr).toContain("it was purged after its retention");
  });

  test("waits no longer than it should", async () => {
    const { code, answer } = await jsonHere(["enqueue", "unheard-of", "--wait", "--timeout", "50ms"], at);
    expect({ code, answer }).toMatchObject({ code: 1, answer: { error: { code: "RESULT_TIMEOUT" } } });
  });

  test("accepts a task that no worker knows, and says so", async () => {
    const { code, stderr } = await here(["enqueue", "unheard-of"], at);
    expect(code).toBe(0);
    expect(stderr).toContain('No worker that is online knows a task named "unheard-of"');
  });

  test("passes every option on", async () => {
    const id = "0198c6f0-5a5e-7c3e-9d55-0b7f3c1f2a11";
    const options = ["--queue", "other", "--priority", "-5", "--delay", "1h", "--expires-in", "2h", "--id", id];
    const unique = [
      "--unique-key",
      "u",
      "--unique-for",
      "1d",
      "--unique-over",
      "pending,running",
      "--on-duplicate",
      "keep",
    ];
    const others = [
      "--exclusive-key",
      "x",
      "--exclusive-limit",
      "3",
      "--rate-limit",
      "api=v2=100/m",
      "--metadata",
      '{"by": "me"}',
    ];
    const { answer } = await jsonHere<Enqueued>(["enqueue", "later", '"text"', ...options, ...unique, ...others], at);
    expect(answer.id).toBe(id);
    const task = await everbeat.tasks.show(id);
    expect(task).toMatchObject({
      state: "pending",
      input: "text",
      queue: "other",
      priority: -5,
      metadata: { by: "me" },
    });
    expect(task).toMatchObject({ uniqueKey: "u", exclusiveKey: "x" });
    expect(task.runAt.getTime() - task.createdAt.getTime()).toBe(3_600_000);
    expect(Number(task.expiresAt?.getTime()) - task.createdAt.getTime()).toBe(7_200_000);
    const columns = "exclusive_limit, rate_key, rate_limit, rate_per_ms::int";
    expect(await database.query(`select ${columns} from everbeat.task where id = $1`, [id])).toEqual([
      { exclusive_limit: 3, rate_key: "api=v2", rate_limit: 100, rate_per_ms: 60_000 },
    ]);
  });

  test("debounces, and expires at a time", async () => {
    const debounced = ["enqueue", "later", "1", "--unique-key", "calm", "--debounce", "1h"];
    const first = await jsonHere<Enqueued>(debounced, at);
    const second = await jsonHere<Enqueued>([...debounced, "--expires-at", "2999-01-01"], at);
    expect(second.answer).toMatchObject({ id: first.answer.id, wasThere: true });
    expect((await everbeat.tasks.show(first.answer.id)).expiresAt?.toISOString()).toBe("2999-01-01T00:00:00.000Z");
  });

  test("has a flag for each option of the API", async () => {
    const { stdout } = await here(["enqueue", "--help"], at);
    const flagOf = (option: string) => `--${option.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
    for (const option of Object.keys(ENQUEUE_SHAPE).filter((name) => name !== "tx"))
      expect(stdout).toContain(`${flagOf(option)} <`);
  });

  test("reports everything that is wrong together, in its own words", async () => {
    const wrong = [
      "enqueue",
      "no spaces",
      "{a: 1}",
      "--priority",
      "1000",
      "--delay",
      "soon",
      "--rate-limit",
      "fast",
      "--metadata",
      "{",
    ];
    const more = [
      "--on-duplicate",
      "maybe",
      "--run-at",
      "tomorrow",
      "--expires-in",
      "1h",
      "--expires-at",
      "2999-01-01",
    ];
    const { code, stderr } = await here([...wrong, ...more, "--timeout", "1s"], at);
    expect(code).toBe(2);
    for (const problem of [
      "the name: must be 1 to 128 ASCII letters",
      "the input: is not JSON",
      "--metadata: must be JSON",
      "--priority: must be a whole number",
      "--delay: must be a duration",
      "--rate-limit: must be key=starts/duration",
      "--on-duplicate: must be",
      "--on-duplicate: needs --unique-key",
      "--run-at: must be",
      "--expires-at and --expires-in exclude each other",
      "--timeout: needs --wait",
    ]) {
      expect(stderr).toContain(problem);
    }
  });

  test("takes a time to run at", async () => {
    const { answer } = await jsonHere<Enqueued>(["enqueue", "later", "--run-at", "2999-01-01T00:00:00Z"], at);
    expect((await everbeat.tasks.show(answer.id)).runAt.toISOString()).toBe("2999-01-01T00:00:00.000Z");
  });

  test("does with a duplicate what it is told", async () => {
    const keyed = ["enqueue", "later", "--delay", "1h", "--unique-key", "dup"];
    const first = await jsonHere<Enqueued>(keyed, at);
    const kept = await jsonHere<Enqueued>(keyed, at);
    expect(kept.answer).toMatchObject({ id: first.answer.id, wasThere: true });
    expect((await here(keyed, at)).stdout).toContain("was there already");
    const refused = await jsonHere([...keyed, "--on-duplicate", "refuse"], at);
    expect(refused).toMatchObject({ code: 1, answer: { error: { code: "DUPLICATE_TASK" } } });
  });

  test.each([
    ["input that is not JSON", ["add", "{a: 1}"], "the input: is not JSON"],
    ["a name that is none", ["no spaces please"], "letters, digits"],
    ["an id that is none", ["add", "--id", "7"], "must be a UUID"],
    [
      "what to do with duplicates without a key",
      ["add", "--on-duplicate", "keep"],
      "--on-duplicate: needs --unique-key",
    ],
    ["a timeout for nothing", ["add", "--timeout", "1s"], "--timeout: needs --wait"],
  ])("refuses %s", async (_what, args, message) => {
    expect(await here(["enqueue", ...args], at)).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringContaining(message),
    });
  });

  test("reads its input from standard input", async () => {
    const { answer } = await everbeatJson<Enqueued>(["enqueue", "later", "-"], {
      ...at,
      input: '{"from": "a pipe"}\n',
    });
    expect((await everbeat.tasks.show(answer.id)).input).toEqual({ from: "a pipe" });
  });

  test("refuses input that is too large", async () => {
    const { code, stderr } = await cli(["enqueue", "later", "-"], {
      ...at,
      input: JSON.stringify("x".repeat(1_100_000)),
    });
    expect(code).toBe(2);
    expect(stderr).toContain("at most 1048576 are allowed");
  });
});
