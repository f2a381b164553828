import { expect, test } from "vitest";
import { Batcher } from "../../src/queue/batcher.ts";

/** A batcher whose batches end when the test says so. */
function controlled(options: { maxItems?: number; maxUnderWay?: number } = {}) {
  const batches: { items: readonly number[]; finish: () => void; fail: (error: Error) => void }[] = [];
  const batcher = new Batcher<number, string>({
    maxItems: 100,
    maxUnderWay: 1,
    ...options,
    run: (items) =>
      new Promise((resolve, reject) => {
        batches.push({ items, finish: () => resolve(items.map((item) => `answer ${item}`)), fail: reject });
      }),
  });
  return { batcher, batches };
}

const turn = () => new Promise((resume) => setImmediate(() => setImmediate(resume)));

test("calls of one turn of the loop leave together, and each gets its own answer", async () => {
  const { batcher, batches } = controlled();
  const answers = Promise.all([batcher.add(1), batcher.add(2)]);
  await turn();
  expect(batches.map((batch) => batch.items)).toEqual([[1, 2]]);
  batches[0]?.finish();
  expect(await answers).toEqual(["answer 1", "answer 2"]);
});

test("what comes while a batch is under way leaves with the next, no more at once than allowed", async () => {
  const { batcher, batches } = controlled({ maxItems: 2 });
  void batcher.add(1);
  await turn();
  const rest = Promise.all([2, 3, 4].map((item) => batcher.add(item)));
  await turn();
  expect(batches).toHaveLength(1);
  expect(batcher.size).toBe(4);
  for (const index of [0, 1, 2]) {
    batches[index]?.finish();
    await turn();
  }
  expect(batches.map((batch) => batch.items)).toEqual([[1], [2, 3], [4]]);
  await rest;
  await batcher.idle();
  expect(batcher.size).toBe(0);
});

test("a batch that fails fails its own calls and no others", async () => {
  const { batcher, batches } = controlled();
  const first = batcher.add(1);
  await turn();
  const second = batcher.add(2);
  batches[0]?.fail(new Error("no"));
  await expect(first).rejects.toThrow("no");
  await turn();
  batches[1]?.finish();
  expect(await second).toBe("answer 2");
});

test("an answer may itself be a promise that fails", async () => {
  const batcher = new Batcher<number, string>({
    maxItems: 10,
    maxUnderWay: 1,
    run: async (items) => items.map((item) => (item === 2 ? Promise.reject(new Error("two")) : "fine")),
  });
  expect(await Promise.allSettled([batcher.add(1), batcher.add(2)])).toMatchObject([
    { value: "fine" },
    { reason: { message: "two" } },
  ]);
});
