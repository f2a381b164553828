/**
 * Code that tells its own worker to stop. A process cannot see who has sent it a signal, so what sends one is watched: `process.kill`, and
 * `process.emit`, which calls the listeners of a signal as the signal would; and under a supervisor what closes the channel to it. A program that sends
 * the signal for it, such as the shell's `kill`, is not seen.
 */
import { executionAsyncResource } from "node:async_hooks";
import { syncBuiltinESMExports } from "node:module";
import { constants } from "node:os";
import { isMainThread } from "node:worker_threads";
import { isSupervised } from "../supervised-process.ts";
import { isInsideRunner } from "./inside-runner.ts";

const { SIGTERM, SIGINT, SIGHUP, SIGKILL } = constants.signals;
/** Those at which a worker leaves. Without a signal, it is SIGTERM. */
const STOPS: ReadonlySet<unknown> = new Set([undefined, "SIGTERM", "SIGINT", "SIGHUP", SIGTERM, SIGINT, SIGHUP]);
const HANGUPS: ReadonlySet<unknown> = new Set(["SIGHUP", SIGHUP]);
/** A worker leaves when its supervisor is gone. */
const KILLS: ReadonlySet<unknown> = new Set(["SIGKILL", SIGKILL]);

/** `isForParent`: the parent of this process gets the signal too. */
type OnStop = (isForParent: boolean) => void;

interface Watched {
  kill: (pid: number, signal?: string | number) => true;
  /** What `process.kill` calls, also where somebody has kept that from before it was watched. */
  _kill?: (pid: number, signal: number) => unknown;
  emit: (name: string | symbol, ...details: unknown[]) => boolean;
  disconnect?: () => void;
}

/** Returns the function that ends it. */
export function watchOwnSignals(onStop: OnStop): () => void {
  let isWithinKill = false;
  const look = (pid: number, signal: unknown) => {
    const isForParent = reachesParent(pid);
    const isKill = KILLS.has(signal) && isForParent && isSupervised();
    if (isKill || (STOPS.has(signal) && reachesWorker(pid, signal))) onStop(isForParent);
  };
  const unwatch = [
    replaced("kill", (kill) => (pid, signal) => {
      look(pid, signal);
      isWithinKill = true;
      try {
        return kill(pid, signal);
      } finally {
        isWithinKill = false;
      }
    }),
    replaced("_kill", (kill) => (pid, signal) => {
      if (!isWithinKill) look(pid, signal);
      return kill(pid, signal);
    }),
    replaced("emit", (emit) => (name, ...details) => {
      if (isStopByHand(name)) onStop(false);
      return emit(name, ...details);
    }),
    replaced("disconnect", (disconnect) => () => {
      if (isSupervised()) onStop(false);
      disconnect();
    }),
  ];
  // For code that has them by `import { kill } from "node:process"`.
  syncBuiltinESMExports();
  return () => {
    for (const end of unwatch) end();
    syncBuiltinESMExports();
  };
}

/** Puts another function in the place of one of the process, if there is one. Returns what puts it back. */
function replaced<Name extends keyof Watched>(
  name: Name,
  around: (original: NonNullable<Watched[Name]>) => NonNullable<Watched[Name]>,
): () => void {
  const watched = process as unknown as Partial<Watched>;
  const original = watched[name];
  if (typeof original !== "function") return () => {};
  const isOwn = Object.hasOwn(process, name);
  const ours = around(original.bind(process) as NonNullable<Watched[Name]>);
  watched[name] = ours;
  return () => {
    // Somebody may have put a function of theirs around it.
    if (watched[name] !== ours) return;
    if (isOwn) watched[name] = original;
    else delete watched[name];
  };
}

/** Of a real signal, the call comes from Node itself: its listeners may have been set up by a handler, which has not sent it. */
function isStopByHand(name: string | symbol): boolean {
  if (!STOPS.has(name) || isInsideRunner() || process.listenerCount(name as NodeJS.Signals) === 0) return false;
  if (isSupervised() && HANGUPS.has(name)) return false;
  return executionAsyncResource()?.constructor.name !== "Signal";
}

function reachesWorker(pid: number, signal: unknown): boolean {
  const { pid: own, ppid: parent } = process;
  // A runner's process has a group of its own, and is deaf to these signals: its worker is its parent.
  if (isInsideRunner() && isMainThread) return [parent, -parent, EVERYBODY].includes(pid);
  // A supervised worker leaves it to its supervisor to say what that means.
  if (pid === own && isSupervised() && HANGUPS.has(signal)) return false;
  // A parent may be the supervisor, which stops all of its workers.
  return pid === own || pid === -own || reachesParent(pid);
}

/** Its group is that of its parent, unless somebody has given it one of its own. */
function reachesParent(pid: number): boolean {
  return [OWN_GROUP, process.ppid, -process.ppid, EVERYBODY].includes(pid);
}

const OWN_GROUP = 0;
const EVERYBODY = -1;
