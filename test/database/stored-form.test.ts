/** An input has to fit its schema twice: as it was given, and as a worker will read it from JSON. */
import { expect, test } from "vitest";
import { z } from "zod";
import { defineTask } from "../../src/task/define-task.ts";
import { openTestEverbeat } from "../support/database.ts";

const { everbeat, database } = await openTestEverbeat();
const count = async () =>
  Number((await database.query<{ n: string }>("select count(*) as n from everbeat.task"))[0]?.n);

/** A schema that counts how often it is asked. */
function counting<S extends z.ZodType>(schema: S) {
  const asked = { times: 0 };
  const note = (value: unknown) => {
    asked.times++;
    return value;
  };
  return { asked, schema: z.preprocess(note, schema) };
}

test("a Date under z.date() is refused, with a schema that would take it", async () => {
  const task = defineTask({ name: "date", input: z.object({ when: z.date() }), run: () => null });
  const before = await count();
  await expect(everbeat.enqueue(task, { when: new Date(0) })).rejects.toMatchObject({
    code: "INVALID_OPTIONS",
    problems: [expect.stringMatching(/^input: it is stored as JSON.*when: .*date.*string.*z\.coerce\.date\(\)/)],
  });
  await expect(everbeat.enqueueMany(task, [{ when: new Date(0) }])).rejects.toThrow(
    /\[0\]\.input: it is stored as JSON/,
  );
  expect(await count()).toBe(before);
});

test("nothing under z.undefined() is refused: a worker would read null", async () => {
  const task = defineTask({ name: "none", input: z.undefined(), run: () => null });
  await expect(everbeat.enqueue(task, undefined)).rejects.toThrow(/stored as JSON.*null/);
});

test("a schema that waits for something is asked again in the same way", async () => {
  const slow = z.object({ when: z.date() }).refine(async () => true);
  const task = defineTask({ name: "slow", input: slow, run: () => null });
  await expect(everbeat.enqueue(task, { when: new Date(0) })).rejects.toThrow(/stored as JSON/);
  await expect(everbeat.enqueueMany(task, [{ when: new Date(0) }])).rejects.toThrow(/stored as JSON/);
});

test("what the schema takes in both forms is enqueued, and stored as it was given", async () => {
  const input = z.object({
    when: z.coerce.date(),
    n: z.coerce.number(),
    note: z.string().optional(),
    by: z.string().default("me"),
  });
  const task = defineTask({ name: "both", input, run: () => null });
  const id = await everbeat.enqueue(task, { when: new Date(0), n: "7", note: undefined });
  expect((await everbeat.tasks.show(id)).input).toEqual({ when: "1970-01-01T00:00:00.000Z", n: "7" });
});

test("plain data is checked once, however deep; what JSON changes is checked twice", async () => {
  const { asked, schema } = counting(z.any());
  const task = defineTask({ name: "counted", input: schema, run: () => null });
  const timesFor = async (input: unknown) => {
    asked.times = 0;
    await everbeat.enqueue(task, input);
    return asked.times;
  };
  const deep = Array.from({ length: 20 }).reduce<unknown>((inner) => ({ inner: [inner] }), "x");
  for (const plain of [{ url: "a", n: [1, null, true] }, deep, null, Object.create(null)])
    expect(await timesFor(plain)).toBe(1);
  class Point {
    x = 1;
  }
  for (const changed of [{ at: new Date(0) }, { none: undefined }, undefined, { toJSON: () => 1 }, new Point()])
    expect(await timesFor(changed)).toBe(2);
});
