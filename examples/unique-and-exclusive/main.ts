/** At most one of a kind, never two at once, and not too fast. */
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { DuplicateTaskError, Everbeat } from "everbeat";
import { buildIndex, callApi, Diary, migrate } from "./tasks.ts";

const everbeat = await Everbeat.open({ schema: "example_keys", log: "warn", onProgress: console.log });
// A new name for every run, so that what an earlier run left behind does not count.
const run = randomUUID();

console.log("A unique key: at most one task of a kind waits or runs");
const uniqueKey = `repository-${run}`;
const index = (revision: number, onDuplicate: "keep" | "replace" | "refuse") =>
  everbeat.enqueue(buildIndex, { revision }, { uniqueKey, onDuplicate });

const first = await index(1, "keep");
assert.equal(await index(2, "keep"), first);
assert.deepEqual((await everbeat.tasks.show(first)).input, { revision: 1 });
console.log("  keep      the second call gets the first task's id; revision 1 stays");

assert.equal(await index(3, "replace"), first);
assert.deepEqual((await everbeat.tasks.show(first)).input, { revision: 3 });
console.log("  replace   the waiting task now has revision 3");

await assert.rejects(index(4, "refuse"), DuplicateTaskError);
console.log("  refuse    the caller gets a DuplicateTaskError");

const debounced = { uniqueKey: `debounced-${run}`, debounce: "300ms" } as const;
const ids = new Set<string>();
for (let revision = 1; revision <= 5; revision++) ids.add(await everbeat.enqueue(buildIndex, { revision }, debounced));
assert.equal(ids.size, 1);

const migrations = new Diary();
const pairs = new Diary();
const calls = new Diary();
const alone = migrate(migrations);
const inPairs = { ...migrate(pairs), name: "migrate-in-pairs" };
const api = callApi(calls);
// Two workers, so that the keys have to hold across workers.
const tasks = [buildIndex, alone, inPairs, api];
await everbeat.work(tasks, { concurrency: 5 });
await everbeat.work(tasks, { concurrency: 5 });

assert.equal(await everbeat.result(first), "index of revision 3");
const [last] = [...ids];
assert.equal(await everbeat.result(last ?? ""), "index of revision 5");
console.log("  debounce  five calls in a row are one task, with the last revision");

console.log("An exclusive key: never two at once, in any queue, on any machine");
const steps = Array.from({ length: 8 }, (_, step) => ({ step }));
const one = await everbeat.enqueueMany(alone, steps, { options: { exclusiveKey: `database-${run}` } });
await Promise.all(one.map((id) => everbeat.result(id)));
assert.equal(migrations.startedAtMs.length, 8);
assert.equal(migrations.most, 1);
console.log(`  limit 1   ${one.length} tasks on two workers, at most ${migrations.most} at a time`);

const two = await everbeat.enqueueMany(inPairs, steps, {
  options: { exclusiveKey: `pairs-${run}`, exclusiveLimit: 2 },
});
await Promise.all(two.map((id) => everbeat.result(id)));
assert.equal(pairs.startedAtMs.length, 8);
assert.equal(pairs.most, 2);
console.log(`  limit 2   ${two.length} tasks on two workers, at most ${pairs.most} at a time`);

console.log("A rate limit: so many starts per time, across all workers");
const pages = Array.from({ length: 6 }, (_, page) => ({ page }));
const limited = await everbeat.enqueueMany(api, pages, {
  options: { rateLimit: { key: `api-${run}`, limit: 3, per: "1s" } },
});
await Promise.all(limited.map((id) => everbeat.result(id)));
const tookMs = Math.max(...calls.startedAtMs) - Math.min(...calls.startedAtMs);
// Three at once, then one every third of a second.
assert.ok(tookMs > 850, `six starts at 3 per second took only ${tookMs} ms`);
console.log(`  3 per 1s  six starts took ${(tookMs / 1_000).toFixed(1)} s`);

await everbeat.close();
