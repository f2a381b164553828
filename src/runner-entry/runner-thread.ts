/**
 * A runner in a thread of its replica's process. Its replica's heart beats for it; it tells only how its own loop is doing, which
 * that process watches.
 */
import { getHeapStatistics } from "node:v8";
import { parentPort, workerData } from "node:worker_threads";
import { tick } from "../heart/heart.ts";
import { SharedState } from "../heart/shared-state.ts";
import { decode, encodeSealed } from "../runner/protocol.ts";
import type { RunnerThreadData } from "../runner/thread-channel.ts";
import { liveAsRunner } from "./live-as-runner.ts";

const shared = new SharedState((workerData as RunnerThreadData).buffer);
tick(shared, () => 0);
let sentCharacters = 0;
const send = (sealed: string) => {
  sentCharacters += sealed.length;
  parentPort?.postMessage(sealed);
};
/** Its heap and its buffers. */
const memory = () => {
  const { used_heap_size, external_memory } = getHeapStatistics();
  return used_heap_size + external_memory;
};
const life = liveAsRunner({
  send,
  unread: () => sentCharacters - shared.get("readCharacters"),
  memory,
  // What it starts belongs to the worker's process, and nobody ends it.
  leftProcesses: undefined,
  onBegin({ beatEveryMs }, seal) {
    const beat = () =>
      send(encodeSealed(seal, { type: "beat", vitals: { heapUsed: getHeapStatistics().used_heap_size } }));
    setInterval(beat, beatEveryMs).unref();
  },
  // It stops with its process, which sees to that.
  onMustStop: () => {},
  leave: () => process.exit(0),
  // Its replica terminates it.
  end: () => {},
});
parentPort?.on("message", (line: unknown) => {
  const message = decode(line);
  if (message) life.hear(message);
});
