/** A runner in a thread of its replica's process. Its replica's heart beats for it; it tells only how its own loop is doing. */
import { parentPort } from "node:worker_threads";
import { decode, encode, type FromRunner, type ToRunner } from "../runner/protocol.ts";
import { liveAsRunner } from "./live-as-runner.ts";

const send = (message: FromRunner) => parentPort?.postMessage(encode(message));
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
