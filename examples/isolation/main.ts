/** A segfault, an empty heap and an endless loop each take down one runner and one task, and nothing else. */
import assert from "node:assert/strict";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { Everbeat, TaskEndedError } from "everbeat";
import { countPrimes, endless, hello, hungry, segfault } from "./tasks.ts";

const everbeat = await Everbeat.open({ schema: "example_isolation", log: "silent", onProgress: console.log });
everbeat.on("runner.ended", ({ kind, pid, because, exitCode, signal }) =>
  console.log(`   a runner (${kind}, process ${pid}) ended: ${because}, ${signal ?? `exit code ${exitCode}`}`),
);
await everbeat.work([countPrimes, segfault, hungry, endless, hello], {
  abortGrace: "500ms",
  runners: { processes: 2, threads: 2, heapLimit: "64MB" },
  handleSignals: false,
});

const delays = monitorEventLoopDelay({ resolution: 10 });
delays.enable();
const counts = await Promise.all(
  (await everbeat.enqueueMany(countPrimes, [{ below: 1_000_000 }, { below: 1_000_000 }])).map((id) =>
    everbeat.result(id),
  ),
);
assert.deepEqual(counts, [78_498, 78_498]);
console.log(`1. two threads counted ${counts[0]} primes each; this process's own loop turned on meanwhile`);
delays.disable();
console.log(`   (its median delay was ${(delays.percentile(50) / 1e6).toFixed(1)} ms)`);

const crash = await everbeat.result(await everbeat.enqueue(segfault, undefined)).catch((error: unknown) => error);
assert.ok(crash instanceof TaskEndedError && crash.code === "WORKER_CRASHED", String(crash));
assert.match(crash.message, /SIGSEGV/);
console.log(`2. ${crash.error.message}`);

const fed = await everbeat.enqueue(hungry, null);
assert.equal(await everbeat.result(fed), "content with little, at attempt 2");
const attempts = (await everbeat.tasks.show(fed)).attempts.map(({ outcome }) => outcome);
assert.deepEqual(attempts, ["crashed", "completed"]);
console.log("3. a task that ate its runner's heap crashed once, and was run again in another");

const late = await everbeat.result(await everbeat.enqueue(endless, undefined)).catch((error: unknown) => error);
assert.ok(late instanceof TaskEndedError && late.code === "TASK_TIMED_OUT", String(late));
console.log("4. an endless loop was ended by its timeout, and is not running any more");

assert.equal(await everbeat.result(await everbeat.enqueue(hello, { name: "you" })), "hello you");
const replicas = await everbeat.replicas();
assert.deepEqual(
  replicas.filter(({ pid }) => pid === process.pid).map(({ status }) => status),
  ["online"],
);
console.log("5. the worker that all of this happened in is well, and says hello");
await everbeat.close();
