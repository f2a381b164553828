// A worker whose main thread is blocked from its start until its heart has begun, and for a while after that: it loads something large, say.
// Argument: the database's address.
import { existsSync } from "node:fs";
import { defineTask, Everbeat } from "../../dist/index.js";

const task = defineTask({ name: "later", run: () => "done" });
const everbeat = await Everbeat.open({ database: process.argv[2], log: "silent" });
await everbeat.work([task], { handleSignals: false });
const stand = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
while (!existsSync(process.env.HEART_BEGINS_AT)) stand(50);
stand(2_500);
const result = await everbeat.result(await everbeat.enqueue(task), { timeout: 30_000 });
await everbeat.close();
console.log(result);
