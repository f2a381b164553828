/**
 * A runner in a process of its own. Messages come and go on one pipe, which this thread reads; beats go out on another, by a
 * heart of its own that also notices when the replica is dead, and then ends this process, whatever this thread does.
 */
import { Socket } from "node:net";
import { Worker as Thread } from "node:worker_threads";
import { tick } from "../heart/heart.ts";
import { residentMemoryReader } from "../heart/resident-memory.ts";
import { SharedState } from "../heart/shared-state.ts";
import { leadThrough } from "../outlet/outlets.ts";
import { builtFile } from "../package-files.ts";
import { endOwnGroup, Guardian } from "../runner/guardian.ts";
import { LeftProcesses } from "../runner/left-processes.ts";
import { LineReader } from "../runner/line-reader.ts";
import { MESSAGES_FD, PRINTED_FDS } from "../runner/pipes.ts";
import { decode, type RunnerCharge } from "../runner/protocol.ts";
import { liveAsRunner } from "./live-as-runner.ts";
import type { RunnerHeartData } from "./runner-heart-thread.ts";

/** As a shell names a death by SIGTERM. */
const TERMINATED = 143;

const guardian = new Guardian();
for (const name of ["stdout", "stderr"] as const) leadThrough(process[name], doNotWait(PRINTED_FDS[name]));
const pipe = new Socket({ fd: MESSAGES_FD, readable: true, writable: true });
const send = (sealed: string) => {
  if (pipe.writable) pipe.write(`${sealed}\n`);
};

// A service manager's stop, which may go to every process, is for the replica, which stops its runners in good order.
const ignore = () => {};
process.on("SIGINT", ignore);
process.on("SIGTERM", ignore);
process.on("SIGHUP", ignore);

let heart: Thread | undefined;
const life = liveAsRunner({
  send,
  unread: () => pipe.writableLength,
  memory: residentMemoryReader(),
  leftProcesses: new LeftProcesses(guardian.pid),
  onBegin: startHeart,
  onMustStop: (mustStop) => heart?.postMessage(mustStop),
  leave: () => guardian.dismiss(() => process.exit(0)),
  end(sayLast) {
    // A handler's own listener may want to put things in order; without one there is nothing to wait for.
    if (process.listenerCount("SIGTERM") > 1) process.off("SIGTERM", ignore);
    else void sayLast().then(() => process.exit(TERMINATED));
  },
});

// The replica may say as much as it likes: it is what this process is for.
const lines = new LineReader(Number.POSITIVE_INFINITY);
pipe.setEncoding("utf8");
pipe.on("data", (text: string) => {
  for (const line of lines.read(text)) {
    const message = decode(line);
    if (message) life.hear(message);
  }
});
// The replica is gone. Its heart ends this process in a moment, should what is told to stop here not do so.
pipe.on("error", () => life.abandon());
pipe.on("close", () => life.abandon());

/** Node lets no write to a pipe of its own wait for the reader. */
function doNotWait(fd: number): number {
  new Socket({ fd, readable: false, writable: true }).on("error", () => {}).unref();
  return fd;
}

function startHeart({ beatEveryMs, leaseMs, stackAfterMs }: RunnerCharge, seal: string): void {
  const shared = new SharedState();
  tick(shared, () => 0);
  const data: RunnerHeartData = {
    ...{ beatEveryMs, leaseMs, stackAfterMs, seal },
    buffer: shared.buffer,
    ourFolder: builtFile("/"),
  };
  heart = new Thread(builtFile("runner-entry/runner-heart-thread.cjs"), {
    workerData: data,
    // What the application has Node load first is not for the heart.
    execArgv: [],
  });
  heart.unref();
  heart.on("message", () => life.abandon());
  // Without a heart nobody would know whether it is alive, nor would it know that its replica is dead.
  heart.on("error", endOwnGroup);
  heart.on("exit", endOwnGroup);
}
