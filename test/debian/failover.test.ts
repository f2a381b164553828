/** Several hosts of which one is the primary: found at the start, and found again after a failover to the standby. */
import { afterAll, expect, test } from "vitest";
import { Everbeat } from "../../src/everbeat.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { createCluster } from "../support/debian-cluster.js";
import { eventually } from "../support/eventually.ts";

const primary = await createCluster({ settings: ["synchronous_standby_names=standby"] });
const standby = await primary.standby();
afterAll(() => {
  standby.stop("immediate");
  primary.remove();
});
const add = defineTask({ name: "add", run: (n: number) => n + 1 });

test("the primary is used, wherever it is in the list, and what was accepted survives its loss", async () => {
  await using everbeat = await Everbeat.open({ database: { urls: [standby.url, primary.url] }, log: "silent" });
  await everbeat.work([add], { handleSignals: false });
  expect(await everbeat.result(await everbeat.enqueue(add, 1))).toBe(2);

  await everbeat.queues.pause("default");
  const accepted = await everbeat.enqueueMany(
    add,
    Array.from({ length: 200 }, (_, n) => n),
  );
  primary.stop("immediate");
  standby.promote();

  await eventually(() => everbeat.queues.resume("default").then(() => true), { within: 20_000 });
  for (const [n, id] of accepted.entries()) expect(await everbeat.result(id, { timeout: "20s" })).toBe(n + 1);
});

test("a list without a primary says of each server what is wrong with it", async () => {
  const other = await createCluster();
  const follower = await other.standby();
  other.stop("immediate");
  const opening = Everbeat.open({ database: { urls: [follower.url, other.url] }, log: "silent" });
  await expect(opening).rejects.toThrow(/follows another server and is not the primary[\s\S]*ECONNREFUSED/);
  follower.stop("immediate");
  other.remove();
});
