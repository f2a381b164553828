/**
 * The heart of a runner's process: beats to its replica over a pipe, and tells it where the loop is blocked. Ends the process soon
 * after the pipe has closed; or when the replica, which may stand still, has not been heard for so long that others may run the task.
 */
import { Socket } from "node:net";
import { parentPort, workerData } from "node:worker_threads";
import { steadyNowMs } from "../heart/clock.ts";
import { readLease } from "../heart/lease.ts";
import { SharedState } from "../heart/shared-state.ts";
import { readMainStack } from "../heart/thread-stack.ts";
import { createVitals } from "../heart/vitals.ts";
import { endOwnGroup } from "../runner/guardian.ts";
import { HEART_FD, LEASE_FD } from "../runner/pipes.ts";
import { encodeSealed, type FromRunner } from "../runner/protocol.ts";
import { watchRunnerLoop } from "../runner/runner-loop.ts";

export interface RunnerHeartData {
  readonly beatEveryMs: number;
  readonly leaseMs: number;
  readonly stackAfterMs: number;
  readonly seal: string;
  readonly buffer: SharedArrayBuffer;
  /** Where this package is: what of a stack is ours. */
  readonly ourFolder: string;
}

/**
 * How long a handler has to notice that its replica is dead. Then this process ends: before its guardian acts (GUARDIAN_GRACE_MS), and before others
 * may run the task.
 */
const ORPHAN_GRACE_MS = 50;

const MOST_UNREAD = 65_536;

const { beatEveryMs, leaseMs, stackAfterMs, seal, ourFolder, buffer } = workerData as RunnerHeartData;
const shared = new SharedState(buffer);
const vitals = createVitals(shared, steadyNowMs);
const pipe = new Socket({ fd: HEART_FD, readable: true, writable: true });

/** On a line of its own, also where a handler has written half a line. */
const say = (message: FromRunner) => pipe.write(`\n${encodeSealed(seal, message)}\n`);

const beat = () => {
  // A replica that does not read has its own heart to answer for it: beats are not piled up for it.
  if (pipe.writable && pipe.writableLength === 0) say({ type: "beat", vitals: vitals() });
};
beat();
setInterval(beat, beatEveryMs);

const watch = watchRunnerLoop({
  ...{ shared, stackAfterMs, readStack: () => readMainStack(ourFolder) },
  tell(message) {
    // Of what is not read for long the short words are kept.
    if (message.type === "turned" || pipe.writableLength < MOST_UNREAD) say(message);
  },
});
watch.start();

let isOrphan = false;
const onReplicaGone = () => {
  if (isOrphan) return;
  isOrphan = true;
  parentPort?.postMessage("orphan");
  setTimeout(endOwnGroup, ORPHAN_GRACE_MS);
};

let mustStop = false;
parentPort?.on("message", (isNeeded: boolean) => {
  mustStop = isNeeded;
});
const watchLease = () => {
  const heardAtMs = readLease(LEASE_FD);
  const endsAtMs = (heardAtMs ?? Number.POSITIVE_INFINITY) + leaseMs - ORPHAN_GRACE_MS;
  if (!mustStop || isOrphan || steadyNowMs() < endsAtMs) return;
  say({ type: "cut-off" });
  onReplicaGone();
};
setInterval(watchLease, Math.min(100, leaseMs / 20));

pipe.on("error", onReplicaGone);
pipe.on("close", onReplicaGone);
pipe.on("data", () => void watch.lookLast());
