/**
 * What is left of a worker that was told for the second time to stop. It gives each of its last writes a second: where the machine is
 * slower than that, it goes as if it were killed while it drains, and what it did not give back itself is recovered by others.
 */
import { expect } from "vitest";
import type { Everbeat } from "../../src/everbeat.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { eventually } from "./eventually.ts";

/** A handler that does not stop has one second; a worker that is gone before the next is over has not waited in vain for anything else. */
const HELD_UP_MS = 1_900;

const nothing = defineTask({ name: "nothing", run: () => {} });

export async function expectGivenBack(
  everbeat: Everbeat,
  {
    ids,
    pids,
    tookMs,
  }: {
    ids: readonly string[];
    /** Of the processes that have left. */
    pids: readonly (number | undefined)[];
    /** From being told to their end. */
    tookMs: number;
  },
): Promise<void> {
  const read = () => Promise.all(ids.map((id) => everbeat.tasks.show(id)));
  const statuses = (await everbeat.replicas()).filter(({ pid }) => pids.includes(pid)).map(({ status }) => status);
  const tasks = await read();
  const isDone = tasks.every(({ state }) => state === "pending") && statuses.every((status) => status === "offline");
  if (!isDone && tookMs > HELD_UP_MS) {
    const sweeping = await everbeat.work([nothing], { handleSignals: false });
    const isOwned = ({ state }: { state: string }) => state === "running" || state === "claimed";
    const recovered = await eventually(read, { until: (all) => !all.some(isOwned), within: 100_000 });
    expect(recovered).toMatchObject(ids.map(() => ({ failures: 0, crashes: 0 })));
    await sweeping.stop({ now: true });
    return;
  }
  expect(statuses).toEqual(pids.map(() => "offline"));
  const givenBack = { state: "pending", failures: 0, crashes: 0, attempts: [{ outcome: "aborted" }] };
  expect(tasks).toMatchObject(ids.map(() => givenBack));
}
