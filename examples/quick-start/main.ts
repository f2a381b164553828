/** Define a task, enqueue it, work on it, get its result. */
import assert from "node:assert/strict";
import { Everbeat } from "everbeat";
import { greet } from "./tasks.ts";

const everbeat = await Everbeat.open({ schema: "example_quick_start", log: "warn", onProgress: console.log });

const ada = await everbeat.enqueue(greet, { name: "Ada" });
const grace = await everbeat.enqueue(greet, { name: "Grace" }, { delay: "200ms" });
console.log(`enqueued    two tasks, one of them for later`);

await assert.rejects(everbeat.enqueue(greet, { name: "" }), { code: "INVALID_OPTIONS" });
console.log("refused     an input that does not fit the schema; nothing was written");

await everbeat.work([greet], { concurrency: 5 });

const first = await everbeat.result(ada);
assert.deepEqual(first, { greeting: "Hello, Ada!", attempt: 1 });
console.log("completed  ", first);

const second = await everbeat.result(grace);
assert.deepEqual(second, { greeting: "Hello, Grace!", attempt: 2 });
console.log("completed  ", second, "— its first attempt failed and was retried");

const { attempts } = await everbeat.tasks.show(grace);
assert.deepEqual(
  attempts.map(({ outcome }) => outcome),
  ["failed", "completed"],
);
console.log("recorded   ", attempts.map(({ attempt, outcome }) => `attempt ${attempt} ${outcome}`).join(", "));

await everbeat.close();
