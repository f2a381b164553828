/** A runner in a thread of this process, from its replica's side. */
import { Worker as Thread } from "node:worker_threads";
import { builtFile } from "../package-files.ts";
import type { OpenChannel } from "./channel.ts";
import { decode, encode, type FromRunner } from "./protocol.ts";
import { keepTail } from "./stderr-tail.ts";

export const openThread: OpenChannel = (listener, { heapLimitMb }) => {
  const thread = new Thread(builtFile("runner-entry/runner-thread.js"), {
    stderr: true,
    ...(heapLimitMb === undefined ? {} : { resourceLimits: { maxOldGenerationSizeMb: heapLimitMb } }),
  });
  let message: string | undefined;
  thread.on("message", (line: string) => {
    const heard = decode<FromRunner>(line);
    if (heard) listener.onMessage(heard);
  });
  thread.once("error", (error) => {
    message = error.message;
  });
  thread.once("exit", (exitCode) => listener.onExit({ exitCode, signal: null, message }));
  const terminate = () => void thread.terminate();
  return {
    pid: process.pid,
    send: (sent) => thread.postMessage(encode(sent)),
    terminate,
    kill: terminate,
    stderrTail: keepTail(thread.stderr),
  };
};
