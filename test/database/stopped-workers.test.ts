/** A worker that has stopped is let go: a process may start and stop any number of them on one Everbeat. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const { everbeat } = await openTestEverbeat();
setFlagsFromString("--expose_gc");
const collectGarbage = runInNewContext("gc") as () => void;

async function startAndStop(handleSignals: boolean): Promise<WeakRef<object>> {
  const task = defineTask({ name: "nothing", run: () => null });
  const worker = await everbeat.work([task], { handleSignals });
  await worker.stop();
  return new WeakRef(worker);
}

test.each([true, false])("nothing keeps a stopped worker in memory (handleSignals: %s)", async (handleSignals) => {
  const listeners = process.listenerCount("SIGTERM");
  const worker = await startAndStop(handleSignals);
  const isGone = () => {
    collectGarbage();
    return worker.deref() === undefined;
  };
  await eventually(isGone, { what: "the worker to be collected" });
  expect(process.listenerCount("SIGTERM")).toBe(listeners);
});
