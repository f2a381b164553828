/** A replica's heart, as its main thread sees it: started with the replica, told to stop with it, heard in between. */
import { hostname } from "node:os";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { getHeapStatistics } from "node:v8";
import { Worker as Thread } from "node:worker_threads";
import type { Database } from "../database/database.ts";
import { builtFile } from "../package-files.ts";
import type { ReplicaId } from "../task/ids.ts";
import type { BegunCount } from "./begun-count.ts";
import type { BlockedLoopPolicy } from "./blockage.ts";
import { steadyNowMs } from "./clock.ts";
import type { SharedDeadlines } from "./deadlines.ts";
import type { HeartNews } from "./heart-loop.ts";
import type { HeartPlan } from "./heart-plan.ts";
import { Bell, type LastWord } from "./last-word.ts";
import { renewLease } from "./lease.ts";
import { endUnlessStopped, type HeartData, type HeartWord, liveAsHeart } from "./live-as-heart.ts";
import type { RunnerSign } from "./runner-signs.ts";
import { SharedState } from "./shared-state.ts";
import type { StandIn } from "./stand-in.ts";

export interface Heart {
  /** The replica is known to the database since this word was sent, its first sign of life: beats from now on. */
  begin(heardAtMs: number, standIn?: StandIn): void;
  /** After being fenced: everything that others may repeat has stopped. */
  confirmStopped(): void;
  /** Tells these of the replica's runners with its beats from now on. */
  carry(runners: readonly RunnerSign[]): void;
  /** Blocks this thread until that is on record, or a moment has passed. */
  sayLast(word: LastWord): void;
  stop(): Promise<void>;
}

interface Beating {
  begin(heardAtMs: number): void;
  carry(runners: readonly RunnerSign[]): void;
  sayLast(word: LastWord): void;
  stop(): Promise<unknown>;
}

/** What a heart makes is soon forgotten, so little is enough. No limit on what it keeps: it must not die of one. */
const ROOM = { maxYoungGenerationSizeMb: 2 };
const TICK_MS = 100;
const POINT_EVERY_MS = 500;
const REMEMBER_EVERY_MS = 15_000;

/** Its thread starts and connects at once; it beats when it is told to begin. */
export function startHeart(parts: {
  database: Database;
  replicaId: ReplicaId;
  plan: HeartPlan;
  vanishedAfterMs: number;
  leaseFd: number | undefined;
  blockedLoop: BlockedLoopPolicy;
  deadlines: SharedDeadlines;
  begun: BegunCount;
  /** How many tasks are in hand. */
  inHand: () => number;
  onNews: (news: HeartNews) => void;
}): Heart {
  const shared = new SharedState();
  const data: HeartData = {
    source: parts.database.source,
    schema: parts.database.schema,
    replicaId: parts.replicaId,
    plan: parts.plan,
    vanishedAfterMs: parts.vanishedAfterMs,
    rememberEveryMs: REMEMBER_EVERY_MS,
    buffer: shared.buffer,
    leaseFd: parts.leaseFd,
    deadlines: parts.deadlines.buffer,
    begun: parts.begun.buffer,
    bell: new Bell().buffer,
    blockedLoop: parts.blockedLoop,
    hostname: hostname(),
    ourFolder: builtFile("/"),
  };
  let standIn: StandIn | undefined;
  const ticking = tick(shared, parts.inHand, () => standIn?.isHeld() === true);
  const beating = canBeSent(data) ? onThread(data, parts.onNews) : onMainThread(data, parts.onNews);
  return {
    begin(heardAtMs, takenStandIn) {
      standIn = takenStandIn;
      if (standIn) shared.set("standInSeenAtMs", heardAtMs);
      if (data.leaseFd !== undefined) renewLease(data.leaseFd, heardAtMs);
      beating.begin(heardAtMs);
    },
    confirmStopped: () => shared.set("hasStopped", 1),
    carry: beating.carry,
    sayLast: beating.sayLast,
    async stop() {
      clearInterval(ticking);
      await beating.stop();
    },
  };
}

function onThread(data: HeartData, onNews: (news: HeartNews) => void): Beating {
  const thread = new Thread(builtFile("heart/heart-thread.cjs"), { workerData: data, resourceLimits: ROOM });
  let isOver = false;
  let pointing: NodeJS.Timeout | undefined;
  const hear = (news: HeartNews) => {
    if (isOver) return;
    isOver = news.kind === "refused" || news.kind === "fenced";
    clearInterval(pointing);
    // An embedded server can come back at another address, which only this thread gets to know.
    if (news.kind === "lost") pointing = setInterval(() => say({ source: data.source }), POINT_EVERY_MS).unref();
    onNews(news);
  };
  // A process with nothing left to do may end; its heart is no reason to stay.
  thread.unref();
  thread.on("message", hear);
  thread.on("error", (error) =>
    hear({ kind: "lost", isServerDown: false, message: `the heart's thread failed: ${error.message}` }),
  );
  thread.on("exit", () => {
    if (isOver) return;
    // Without a heart nobody would notice in time that it must stop.
    hear({ kind: "fenced", because: "unheard" });
    endUnlessStopped(data, data.plan.stopWithinMs.unheard);
  });
  const say = (word: HeartWord) => thread.postMessage(word);
  return {
    begin: (heardAtMs) => say({ heardAtMs }),
    carry: (runners) => say({ runners }),
    sayLast(lastWord) {
      if (!isOver) new Bell(data.bell).waitAfter(() => say({ lastWord }));
    },
    async stop() {
      isOver = true;
      clearInterval(pointing);
      say("stop");
      await thread.terminate();
    },
  };
}

/** Settings that only the main thread can use, such as a password that a function gives: then a blocked loop stops the heart. */
function onMainThread(data: HeartData, onNews: (news: HeartNews) => void): Beating {
  let runners: readonly RunnerSign[] = [];
  const loop = liveAsHeart(data, onNews, () => runners);
  let ended: Promise<void> | undefined;
  return {
    begin(heardAtMs) {
      ended = loop.run(heardAtMs);
    },
    carry(signs) {
      runners = signs;
    },
    // Its connection is served by this thread, which cannot wait for it.
    sayLast() {},
    async stop() {
      loop.stop();
      await ended;
    },
  };
}

function canBeSent(data: HeartData): boolean {
  try {
    structuredClone({ ...data, buffer: undefined, deadlines: undefined, begun: undefined, bell: undefined });
    return true;
  } catch {
    return false;
  }
}

/** Writes how the main thread is doing for as long as its loop turns. */
export function tick(shared: SharedState, inHand: () => number, hasStandIn = () => false): NodeJS.Timeout {
  const delays = monitorEventLoopDelay({ resolution: 20 });
  delays.enable();
  let beats = 0;
  const write = () => {
    // What had ended by the tick before is known by now; what ended while the loop stood still may not be yet.
    if (hasStandIn()) shared.set("standInSeenAtMs", shared.get("tickedAtMs"));
    shared.set("tickedAtMs", steadyNowMs());
    shared.set("heapUsed", getHeapStatistics().used_heap_size);
    shared.set("delayP50Ms", delays.percentile(50) / 1e6);
    shared.set("delayP99Ms", delays.percentile(99) / 1e6);
    shared.set("delayMaxMs", delays.max / 1e6);
    shared.set("inHand", inHand());
    // A beat tells how it was since the one before.
    if (shared.get("beats") !== beats) delays.reset();
    beats = shared.get("beats");
  };
  write();
  const timer = setInterval(write, TICK_MS);
  timer.unref();
  return timer;
}
