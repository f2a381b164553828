// Loaded before everything else, on every thread: a heart's thread stands still for three seconds before it begins, and then makes the
// file in HEART_BEGINS_AT.
import { writeFileSync } from "node:fs";
import { isMainThread } from "node:worker_threads";

const file = process.env.HEART_BEGINS_AT;
if (!isMainThread && file) {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3_000);
  writeFileSync(file, "");
}
