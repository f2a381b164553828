/** What a real worker puts on record of its grace is what `explain` says of a task that ignores its signal. */
import { expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

test("a task that ignores its signal is told when it is abandoned, and is abandoned then", async () => {
  const { everbeat } = await openTestEverbeat();
  const hang = defineTask({ name: "hang", timeout: 300, run: (_input: null) => new Promise<null>(() => {}) });
  await everbeat.work([hang], { abortGrace: 4_000 });
  const id = await everbeat.enqueue(hang, null);
  const told = await eventually(() => everbeat.recovery.explain(id), {
    until: ({ because }) => because === "past-timeout",
  });
  expect(told.next).toMatch(
    /^If its handler still has not ended in [\d.]+m?s, it is abandoned \(abortGrace\) and fails/,
  );
  expect(told.evidence.join("\n")).toMatch(/timeout 300ms, [\d.]+m?s so far; abortGrace of its worker 4s/);
  await expect(everbeat.result(id, { timeout: 20_000 })).rejects.toMatchObject({ code: "TASK_TIMED_OUT" });
  expect((await everbeat.tasks.show(id)).error?.message).toMatch(/abandoned .* later \(abortGrace\)/);
});

test("a task on a worker that is being stopped is told so", async () => {
  const { everbeat } = await openTestEverbeat();
  let release = () => {};
  const held = new Promise<null>((resolve) => {
    release = () => resolve(null);
  });
  const hold = defineTask({ name: "hold", run: (_input: null) => held });
  const worker = await everbeat.work([hold], { shutdownGrace: 60_000 });
  const id = await everbeat.enqueue(hold, null);
  await eventually(async () => (await everbeat.tasks.show(id)).state === "running");
  const stopped = worker.stop();
  const told = await eventually(() => everbeat.recovery.explain(id), {
    until: ({ because }) => because === "owner-draining",
  });
  expect(told.summary).toMatch(/^It has been running for .* on a worker that is alive and has been told to stop\.$/);
  release();
  await stopped;
  expect(await everbeat.result(id)).toBeNull();
});
