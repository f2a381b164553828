// Loaded before everything else, on every thread: a heart's thread ends with an error as soon as the file in
// HEART_DIES_AT is there. That is removed, so that the next heart lives.
import { existsSync, rmSync } from "node:fs";
import { isMainThread } from "node:worker_threads";

const file = process.env.HEART_DIES_AT;
if (!isMainThread && file) {
  setInterval(() => {
    if (!existsSync(file)) return;
    rmSync(file, { force: true });
    throw new Error("the heart's thread was made to die");
  }, 20);
}
