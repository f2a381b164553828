/** The heart's thread: beats whatever the main thread does. */
import { parentPort, workerData } from "node:worker_threads";
import { type HeartData, liveAsHeart } from "./live-as-heart.ts";
import type { RunnerSign } from "./runner-signs.ts";

let runners: readonly RunnerSign[] = [];
const loop = liveAsHeart(
  workerData as HeartData,
  (news) => parentPort?.postMessage(news),
  () => runners,
);
parentPort?.on("message", (message: "stop" | { runners: readonly RunnerSign[] }) => {
  if (message === "stop") loop.stop();
  else runners = message.runners;
});
await loop.run();
parentPort?.unref();
