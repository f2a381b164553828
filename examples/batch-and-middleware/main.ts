/** Many inputs in one call, each with its own outcome; and functions around every handler. */
import assert from "node:assert/strict";
import { Everbeat, TaskEndedError } from "everbeat";
import { asTenant, blockTenant, callSizes, geocode, timed, timings, whoAmI } from "./tasks.ts";

const everbeat = await Everbeat.open({ schema: "example_batch", log: "warn", onProgress: console.log });

const addresses = Array.from({ length: 120 }, (_, house) => (house === 60 ? "Atlantis" : `Main Street ${house}`));
const ids = await everbeat.enqueueMany(
  geocode,
  addresses.map((address) => ({ address })),
);
await everbeat.work([geocode, whoAmI], {
  concurrency: 4,
  middleware: [timed, blockTenant("evil-corp"), asTenant],
});

const outcomes = await Promise.allSettled(ids.map((id) => everbeat.result(id)));
const failed = outcomes.flatMap((outcome, index) => (outcome.status === "rejected" ? [addresses[index]] : []));
assert.deepEqual(failed, ["Atlantis"]);
assert.deepEqual(outcomes[0], { status: "fulfilled", value: { latitude: "Main Street 0".length } });
assert.ok(callSizes.length < 20, `${callSizes.length} calls for 120 inputs`);
assert.ok(Math.max(...callSizes) > 1 && Math.max(...callSizes) <= 50);
console.log(`batch        ${ids.length} tasks in ${callSizes.length} calls of ${callSizes.join(", ")} inputs`);
console.log(`own outcome  ${failed.join()} failed by itself, the other ${ids.length - failed.length} completed`);

const ada = await everbeat.enqueue(whoAmI, undefined, { metadata: { tenant: "ada-inc" } });
assert.equal(await everbeat.result(ada), "ada-inc");
console.log("middleware   the handler ran as the tenant of its task's metadata: ada-inc");

const evil = await everbeat.enqueue(whoAmI, undefined, { metadata: { tenant: "evil-corp" } });
await assert.rejects(
  everbeat.result(evil),
  (error) => error instanceof TaskEndedError && error.code === "TENANT_BLOCKED",
);
console.log("middleware   a blocked tenant's task failed before its handler was called");

assert.equal(timings.filter(({ name }) => name === "geocode").length, 120);
assert.equal(timings.filter(({ name }) => name === "who-am-i").length, 2);
console.log(`middleware   ${timings.length} tasks were timed, also those that failed`);

await everbeat.close();
