/**
 * Code that tells its own worker to stop, by a signal. A process cannot see who has sent it a signal, so the calls of `process.kill`
 * are watched. A program that sends the signal for it, such as the shell's `kill`, is not seen.
 */
import { syncBuiltinESMExports } from "node:module";
import { constants } from "node:os";
import { isMainThread } from "node:worker_threads";
import { isInsideRunner } from "./inside-runner.ts";

const { SIGTERM, SIGINT, SIGHUP, SIGKILL } = constants.signals;
/** Those at which a worker leaves. Without a signal, it is SIGTERM. */
const STOPS: ReadonlySet<unknown> = new Set([undefined, "SIGTERM", "SIGINT", "SIGHUP", SIGTERM, SIGINT, SIGHUP]);
/** A worker leaves when its supervisor is gone. */
const KILLS: ReadonlySet<unknown> = new Set(["SIGKILL", SIGKILL]);

/** Returns the function that ends it. */
export function watchOwnSignals(onStop: () => void): () => void {
  const { kill } = process;
  const watched: typeof kill = (pid, signal) => {
    if ((STOPS.has(signal) && reachesWorker(pid)) || (KILLS.has(signal) && isSupervisor(pid))) onStop();
    return kill.call(process, pid, signal);
  };
  process.kill = watched;
  // For code that has it by `import { kill } from "node:process"`.
  syncBuiltinESMExports();
  return () => {
    // Somebody may have put a function of theirs around it.
    if (process.kill !== watched) return;
    process.kill = kill;
    syncBuiltinESMExports();
  };
}

function reachesWorker(pid: number): boolean {
  const { pid: own, ppid: parent } = process;
  const isRunnerProcess = isInsideRunner() && isMainThread;
  // A runner's process has a group of its own, and is deaf to these signals: its worker is its parent.
  if (isRunnerProcess) return [parent, -parent, EVERYBODY].includes(pid);
  // A parent may be the supervisor, which stops all of its workers.
  return [own, -own, OWN_GROUP, parent, -parent, EVERYBODY].includes(pid);
}

/** Only a supervisor has a channel to a process that is no runner. */
function isSupervisor(pid: number): boolean {
  return process.connected && !isInsideRunner() && pid === process.ppid;
}

const OWN_GROUP = 0;
const EVERYBODY = -1;
