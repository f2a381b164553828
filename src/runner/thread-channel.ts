/** A runner in a thread of this process, from its replica's side. */
import { Worker as Thread } from "node:worker_threads";
import { SharedState } from "../heart/shared-state.ts";
import { readStackOfThread } from "../heart/thread-stack.ts";
import { builtFile } from "../package-files.ts";
import type { OpenChannel } from "./channel.ts";
import { passOn } from "./pass-on.ts";
import { decodeSealed, encode } from "./protocol.ts";
import { watchRunnerLoop } from "./runner-loop.ts";

export interface RunnerThreadData {
  /** Where it writes how its loop is doing. */
  readonly buffer: SharedArrayBuffer;
}

const KILL_AGAIN_MS = 250;

export const openThread: OpenChannel = (listener, { heapLimitMb, stackAfterMs, seal }) => {
  const shared = new SharedState();
  const workerData: RunnerThreadData = { buffer: shared.buffer };
  const thread = new Thread(builtFile("runner-entry/runner-thread.js"), {
    workerData,
    // Node's own way would keep what a reader does not take, without end.
    ...{ stdout: true, stderr: true },
    ...(heapLimitMb === undefined ? {} : { resourceLimits: { maxOldGenerationSizeMb: heapLimitMb } }),
  });
  passOn([thread.stdout], "stdout");
  const stderrTail = passOn([thread.stderr], "stderr");
  let asking: Promise<unknown> = Promise.resolve();
  const watch = watchRunnerLoop({
    ...{ shared, stackAfterMs, tell: listener.onMessage },
    readStack() {
      const asked = readStackOfThread(thread.threadId, builtFile("/"));
      asking = asked;
      return asked;
    },
  });
  watch.start();
  let message: string | undefined;
  let killing: NodeJS.Timeout | undefined;
  let readCharacters = 0;
  thread.on("message", (line: unknown) => {
    if (typeof line === "string") readCharacters += line.length;
    shared.set("readCharacters", readCharacters);
    const heard = decodeSealed(seal, line);
    if (heard) listener.onMessage(heard);
  });
  thread.once("error", (error) => {
    message = error.message;
  });
  thread.once("exit", (exitCode) => {
    watch.stop();
    clearInterval(killing);
    listener.onExit({ exitCode, signal: null, message });
  });
  /** Never while it is being asked where it is, which may swallow that; and again, should it have been. */
  const kill = () => {
    watch.stop();
    killing ??= setInterval(() => void thread.terminate(), KILL_AGAIN_MS).unref();
    void asking.finally(() => thread.terminate());
  };
  return {
    pid: process.pid,
    send: (sent) => thread.postMessage(encode(sent)),
    terminate: () => void watch.lookLast().finally(kill),
    kill,
    stderrTail,
  };
};
