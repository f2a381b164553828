/** The heart's thread: beats whatever the main thread does. */
import { parentPort, workerData } from "node:worker_threads";
import { type HeartData, liveAsHeart } from "./live-as-heart.ts";

const loop = liveAsHeart(workerData as HeartData, (news) => parentPort?.postMessage(news));
parentPort?.on("message", (message) => {
  if (message === "stop") loop.stop();
});
await loop.run();
parentPort?.unref();
