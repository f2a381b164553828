/**
 * A runner in a thread of its replica's process. Its replica's heart beats for it; it tells only how its own loop is doing, which
 * that process watches.
 */
import { parentPort, workerData } from "node:worker_threads";
import { tick } from "../heart/heart.ts";
import { SharedState } from "../heart/shared-state.ts";
import { decode, encode, type FromRunner, type ToRunner } from "../runner/protocol.ts";
import type { RunnerThreadData } from "../runner/thread-channel.ts";
import { liveAsRunner } from "./live-as-runner.ts";
import { takeOverPrinting } from "./take-over-printing.ts";

tick(new SharedState((workerData as RunnerThreadData).buffer), () => 0);
const send = (message: FromRunner) => parentPort?.postMessage(encode(message));
takeOverPrinting(send);
const memory = () => {
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
};
const life = liveAsRunner({
  send,
  memory,
  onBegin({ beatEveryMs }) {
    const beat = () => send({ type: "beat", vitals: { heapUsed: memory() } });
    setInterval(beat, beatEveryMs).unref();
  },
  // It stops with its process, which sees to that.
  onMustStop: () => {},
  leave: () => process.exit(0),
  // Its replica terminates it.
  end: () => {},
});
parentPort?.on("message", (line: string) => {
  const message = decode<ToRunner>(line);
  if (message) life.hear(message);
});
