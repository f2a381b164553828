/** Subscribing to events: by names that exist, with something that can be called. */
import { expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const { everbeat } = await openTestEverbeat();

test("a subscription hears its event until it is ended", async () => {
  const heard: string[] = [];
  const end = everbeat.on("task.ended", ({ taskId }) => heard.push(taskId));
  const task = defineTask({ name: "heard", run: (_input: unknown) => null });
  await everbeat.work([task], { handleSignals: false });
  const first = await everbeat.enqueue(task, 1);
  await eventually(() => heard.includes(first));
  end();
  await everbeat.result(await everbeat.enqueue(task, 2));
  expect(heard).toEqual([first]);
});

test("a name that is none is refused with the nearest one, and so is what cannot be called", () => {
  expect(() => everbeat.on("task.endet" as never, () => {})).toThrow(
    /task\.endet: there is no such event; did you mean "task\.ended"/,
  );
  expect(() => everbeat.on("toString" as never, () => {})).toThrow(/toString: there is no such event; known are/);
  expect(() => everbeat.on(undefined as never, () => {})).toThrow(/there is no such event/);
  expect(() => everbeat.on("task.ended", "log it" as never)).toThrow(/the listener: must be a function, not "log it"/);
});

test("what happens in a supervisor's process is not offered: nobody could hear it here", () => {
  // @ts-expect-error It is no name of an event here.
  expect(() => everbeat.on("child.exited", () => {})).toThrow(/child\.exited: happens in the process of a supervisor/);
  // @ts-expect-error Nor is this.
  expect(() => everbeat.on("roll.done", () => {})).toThrow(/roll\.done: happens in the process of a supervisor/);
});
