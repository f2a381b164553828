/** Puts a heart together, on whichever thread: it beats, and ends the process if that must stop and does not. */

import { writeSync } from "node:fs";
import type { ConnectionSource } from "../database/connections.ts";
import { isServerDown } from "../database/transient.ts";
import type { ReplicaId } from "../task/ids.ts";
import { BegunCount } from "./begun-count.ts";
import type { BlockedLoopPolicy } from "./blockage.ts";
import { BlockageRecord } from "./blockage-record.ts";
import { steadyNowMs } from "./clock.ts";
import { SharedDeadlines } from "./deadlines.ts";
import { endBlocked } from "./end-blocked.ts";
import { connectHeart } from "./heart-connection.ts";
import { HeartLoop, type HeartNews } from "./heart-loop.ts";
import type { HeartPlan } from "./heart-plan.ts";
import type { LastWord } from "./last-word.ts";
import { renewLease } from "./lease.ts";
import { LoopWatch } from "./loop-watch.ts";
import type { RunnerSign } from "./runner-signs.ts";
import { SharedState } from "./shared-state.ts";
import { readMainStack } from "./thread-stack.ts";
import { createReplicaVitals } from "./vitals.ts";

export interface HeartData {
  /** The heart's thread is told when it has changed. */
  source: ConnectionSource;
  /** Quoted. */
  readonly schema: string;
  readonly replicaId: ReplicaId;
  readonly plan: HeartPlan;
  readonly vanishedAfterMs: number;
  readonly rememberEveryMs: number;
  readonly buffer: SharedArrayBuffer;
  /** Where this replica's runners read when it was last heard. */
  readonly leaseFd: number | undefined;
  readonly deadlines: SharedArrayBuffer;
  /** How many handlers are at work. */
  readonly begun: SharedArrayBuffer;
  /** Rung when a last word is on record. */
  readonly bell: SharedArrayBuffer;
  readonly blockedLoop: BlockedLoopPolicy;
  readonly hostname: string;
  /** Where this package is: what of a stack is ours. */
  readonly ourFolder: string;
}

/** What the main thread says to its heart's. */
export type HeartWord =
  | "stop"
  | { readonly heardAtMs: number }
  | { readonly runners: readonly RunnerSign[] }
  | { readonly source: ConnectionSource }
  | { readonly lastWord: LastWord };

export function liveAsHeart(
  data: HeartData,
  tell: (news: HeartNews) => void,
  runners: () => readonly RunnerSign[],
): HeartLoop {
  const shared = new SharedState(data.buffer);
  return new HeartLoop({
    connect: () => connectHeart(data),
    isServerDown,
    promise: data.plan.promise,
    fenceAfter: data.plan.fenceAfter,
    vitals: createReplicaVitals(shared, steadyNowMs),
    runners,
    standInSeenAt: () => shared.get("standInSeenAtMs") || undefined,
    steadyNow: steadyNowMs,
    rememberEveryMs: data.rememberEveryMs,
    onHeard: (sentAtMs) => data.leaseFd !== undefined && renewLease(data.leaseFd, sentAtMs),
    tell(news) {
      tell(news);
      if (news.kind === "fenced") endUnlessStopped(data, data.plan.stopWithinMs[news.because]);
    },
  });
}

/** From the heart's own thread: the main thread cannot see that it is blocked. */
export function watchMainThread(data: HeartData, loop: HeartLoop, tell: (news: HeartNews) => void): LoopWatch {
  const shared = new SharedState(data.buffer);
  const { replicaId, hostname } = data;
  /** While the database is away, what there is to write waits. */
  const store = () => {
    if (!loop.store) throw new Error("the database is away");
    return loop.store;
  };
  const record = new BlockageRecord({
    thread: () => ({ replicaId, runnerId: undefined, claims: undefined }),
    name: () => `replica ${replicaId} on ${hostname}`,
    store,
  });
  return new LoopWatch({
    policy: data.blockedLoop,
    tickedAtMs: () => shared.get("tickedAtMs"),
    deadlines: new SharedDeadlines(data.deadlines),
    steadyNow: steadyNowMs,
    readStack: () => readMainStack(data.ourFolder),
    note: (sight) => record.note(sight),
    async turned(blockedForMs, stack) {
      await record.turned(blockedForMs);
      tell({ kind: "unblocked", blockedForMs, stack });
    },
    end: (sight, late) => endBlocked({ replicaId, hostname, store: store() }, sight, late),
  });
}

/**
 * Others may repeat this process's work from then on. Where that cannot be stopped, the process must go. While no handler is at work there is
 * nothing to stop, and a main thread that is blocked begins nothing: then it is looked at again.
 */
export function endUnlessStopped(data: Pick<HeartData, "buffer" | "begun" | "replicaId">, withinMs: number): void {
  const [shared, begun] = [new SharedState(data.buffer), new BegunCount(data.begun)];
  const look = () => {
    if (shared.get("hasStopped") !== 0) return;
    if (begun.value > 0) endProcess(data.replicaId, begun.value);
    setTimeout(look, withinMs).unref();
  };
  setTimeout(look, withinMs);
}

/** The main thread cannot log any more, so the reason goes to standard error from here. */
function endProcess(replicaId: ReplicaId, begun: number): void {
  try {
    writeSync(
      2,
      `everbeat: replica ${replicaId} cannot prove its claims, and ${begun} of its tasks did not stop in time. Its heart ends this process.\n`,
    );
  } catch {
    // Nobody reads it.
  }
  process.kill(process.pid, "SIGKILL");
}
