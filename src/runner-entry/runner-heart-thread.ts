/** The heart of a runner's process: beats to its replica over a pipe, and ends the process soon after that has closed. */
import { Socket } from "node:net";
import { parentPort, workerData } from "node:worker_threads";
import { steadyNowMs } from "../heart/clock.ts";
import { SharedState } from "../heart/shared-state.ts";
import { createVitals } from "../heart/vitals.ts";
import { HEART_FD } from "../runner/pipes.ts";
import { encode } from "../runner/protocol.ts";

export interface RunnerHeartData {
  readonly beatEveryMs: number;
  readonly buffer: SharedArrayBuffer;
}

/** What a handler has to notice that its replica is dead. Others may run its task soon after that: this process must be gone. */
const ORPHAN_GRACE_MS = 100;

const { beatEveryMs, buffer } = workerData as RunnerHeartData;
const vitals = createVitals(new SharedState(buffer), steadyNowMs);
const pipe = new Socket({ fd: HEART_FD, readable: true, writable: true });

const beat = () => {
  // A replica that does not read has its own heart to answer for it: beats are not piled up for it.
  if (pipe.writable && pipe.writableLength === 0) pipe.write(`${encode({ type: "beat", vitals: vitals() })}\n`);
};
beat();
setInterval(beat, beatEveryMs);

let isOrphan = false;
const onReplicaGone = () => {
  if (isOrphan) return;
  isOrphan = true;
  parentPort?.postMessage("orphan");
  setTimeout(() => process.kill(process.pid, "SIGKILL"), ORPHAN_GRACE_MS);
};
pipe.on("error", onReplicaGone);
pipe.on("close", onReplicaGone);
pipe.resume();
