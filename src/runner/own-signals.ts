/**
 * Code that tells its own process to stop, as SIGTERM and SIGINT do. A process cannot see who has sent it a signal, so the calls of `process.kill`
 * are watched.
 */
import { constants } from "node:os";

const { SIGTERM, SIGINT } = constants.signals;
/** Without a signal, it is SIGTERM. */
const STOPS: ReadonlySet<unknown> = new Set([undefined, "SIGTERM", "SIGINT", SIGTERM, SIGINT]);

/** Returns the function that ends it. */
export function watchOwnSignals(onStop: () => void): () => void {
  const { kill } = process;
  const watched: typeof kill = (pid, signal) => {
    if (STOPS.has(signal) && reachesUs(pid)) onStop();
    return kill.call(process, pid, signal);
  };
  process.kill = watched;
  return () => {
    // Somebody may have put a function of theirs around it.
    if (process.kill === watched) process.kill = kill;
  };
}

/** The process itself, its group, or everybody. */
function reachesUs(pid: number): boolean {
  return [process.pid, -process.pid, 0, -1].includes(pid);
}
