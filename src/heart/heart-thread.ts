/** The heart's thread: beats whatever the main thread does. */
import { parentPort, workerData } from "node:worker_threads";
import type { HeartNews } from "./heart-loop.ts";
import { type HeartData, liveAsHeart, watchMainThread } from "./live-as-heart.ts";
import type { RunnerSign } from "./runner-signs.ts";

const data = workerData as HeartData;
const tell = (news: HeartNews) => parentPort?.postMessage(news);
let runners: readonly RunnerSign[] = [];
const loop = liveAsHeart(data, tell, () => runners);
const watch = watchMainThread(data, loop, tell);
parentPort?.on("message", (message: "stop" | { runners: readonly RunnerSign[] }) => {
  if (message === "stop") loop.stop();
  else runners = message.runners;
});
watch.start();
await loop.run();
watch.stop();
parentPort?.unref();
