/** A handler in a runner that floods its log: what the budget drops is told with its own task, before that ends. */
import { expect, test } from "vitest";
import type { FromRunner, RunItem, RunnerCharge } from "../../src/runner/protocol.ts";
import { JobServer } from "../../src/runner/serve-jobs.ts";
import { type AnyTask, defineTask } from "../../src/task/define-task.ts";

const flood = defineTask({
  name: "flood",
  run: async (lines: number, { log }) => {
    for (let line = 0; line < lines; line++) log.info({ line }, "line");
  },
}) as AnyTask;

function serving() {
  const sent: FromRunner[] = [];
  const server = new JobServer({
    charge: { schema: `"everbeat"`, resultLimitBytes: 1_000 } as RunnerCharge,
    tasks: new Map([["flood", flood]]),
    scopes: {
      scope: (_owner, work) => work(),
      outermostScope: (owner, work) => work(owner),
      noteOwnStop() {},
      close() {},
    },
    send: (message) => sent.push(message),
    ...{ unread: () => 0, memory: () => 0 },
    leftProcesses: undefined,
  });
  const run = async (job: number, lines: number) => {
    const item = { input: lines, task: { id: "t", enqueuedAt: new Date().toISOString() } } as unknown as RunItem;
    await server.run({ type: "run", job, name: "flood", items: [item], mustStop: false });
  };
  return { sent, run };
}

test("the count of dropped lines is the last word of the task that lost them, and no other's", async () => {
  const { sent, run } = serving();
  await run(1, 1_500);
  await run(2, 0);
  const logged = sent.flatMap((message) => (message.type === "call" ? [message] : []));
  const lines = logged.filter(({ args }) => args[2] === "line");
  const told = logged.filter(({ args }) => args[2] !== "line");
  expect(told.map(({ job }) => job)).toEqual([1]);
  const [{ args } = { args: [] }] = told;
  expect(args).toMatchObject(["warn", { dropped: 1_500 - lines.length }, expect.stringContaining("were dropped")]);
  expect(sent.indexOf(told[0] as FromRunner)).toBeLessThan(sent.findIndex(({ type }) => type === "outcome"));
});
