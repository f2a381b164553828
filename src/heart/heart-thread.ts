/** The heart's thread: beats whatever the main thread does. */
import { parentPort, workerData } from "node:worker_threads";
import type { HeartNews } from "./heart-loop.ts";
import { Bell, putOnRecord } from "./last-word.ts";
import { type HeartData, type HeartWord, liveAsHeart, watchMainThread } from "./live-as-heart.ts";
import type { RunnerSign } from "./runner-signs.ts";

const data = workerData as HeartData;
const tell = (news: HeartNews) => parentPort?.postMessage(news);
const bell = new Bell(data.bell);
let runners: readonly RunnerSign[] = [];
const loop = liveAsHeart(data, tell, () => runners);
const watch = watchMainThread(data, loop, tell);
parentPort?.on("message", (word: HeartWord) => {
  if (word === "stop") loop.stop();
  else if ("runners" in word) runners = word.runners;
  else if ("source" in word) data.source = word.source;
  else if ("lastWord" in word)
    // What cannot be written is not known afterwards, as after any other crash.
    void putOnRecord(() => loop.store, data.replicaId, word.lastWord)
      .catch(() => {})
      .finally(() => bell.ring());
  else void live(word.heardAtMs);
});
loop.connectAhead();

async function live(heardAtMs: number): Promise<void> {
  watch.start();
  await loop.run(heardAtMs);
  watch.stop();
  parentPort?.unref();
}
