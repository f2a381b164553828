/**
 * What happens, as typed events. Code emits; logs, metrics, alerts and streams are subscribers.
 * A subscriber that throws is the subscriber's problem and is reported, never the emitter's.
 */

import type { AlertChange, AlertRow } from "./alert-kinds.ts";
import type { DeathReason } from "./task/death.ts";
import type { ClaimId, ReplicaId, TaskId } from "./task/ids.ts";
import type { AttemptOutcome } from "./task/states.ts";

export interface TaskRef {
  readonly taskId: TaskId;
  readonly claimId: ClaimId;
  readonly name: string;
  readonly attempt: number;
}

export interface ChildRef {
  /** The number of its place, from 1. */
  readonly child: number;
  /** Shown, never tested. */
  readonly pid: number | undefined;
  readonly replicaId: ReplicaId | undefined;
}

export interface EverbeatEvents {
  "worker.started": { replicaId: ReplicaId; tasks: readonly string[]; concurrency: number };
  "worker.stopping": { replicaId: ReplicaId; running: number };
  "worker.stopped": { replicaId: ReplicaId };
  "task.started": TaskRef;
  "task.ended": TaskRef & { outcome: AttemptOutcome; durationMs: number; willRunAgain: boolean; error: unknown };
  /** The outcome of a lost claim was refused, or a handler was told that its claim is gone. */
  "claim.lost": TaskRef & { refusedOutcome: AttemptOutcome | undefined };
  /** The claim's outcome had been written before; only the reply was lost. */
  "outcome.repeated": TaskRef;
  /** A handler ignored its signal past the grace; its slot was given to others. */
  "handler.abandoned": TaskRef & { reason: string };
  /** A promise or a timer that a handler left behind has failed, when its attempt had ended. `reason`: the error, in a line. */
  "handler.failed-after-end": TaskRef & { error: unknown; reason: string };
  /** The function that says which errors are not worth retrying has failed itself. `reason`: what it threw, in a line. */
  "retry.unless-threw": TaskRef & { error: unknown; reason: string };
  /** A claim was committed and its reply lost; the task was found and runs. */
  "claim.adopted": TaskRef;
  /** An attempt that had ended is on record as running: the database has lost the last part of its memory. */
  "claim.forgotten": TaskRef & { willRunAgain: boolean };
  "database.lost": { error: unknown; doing: string };
  "database.back": { doing: string };
  /**
   * The database answered, and did not take the values that it was given (a trigger or a constraint raised an error, say), or does not let
   * us, who lack a right. `reason`: its own words. Told once for each text.
   */
  "database.refused": { error: unknown; doing: string; reason: string; what: "values" | "us" };
  /** Somebody has locked what a statement needs, for longer than it waits. Told once for each text. */
  "database.locked": { error: unknown; doing: string; reason: string };
  /** A heart is heard for the first time, or again. */
  "heart.beating": { replicaId: ReplicaId; hasSession: boolean };
  "heart.lost": { replicaId: ReplicaId; isServerDown: boolean; message: string };
  /** This replica was declared dead: it stops what it has and comes back under another id. */
  "beat.refused": { replicaId: ReplicaId };
  /** This replica cannot prove its claims any more, and stops before others may take them. */
  "replica.fenced": { replicaId: ReplicaId; because: string };
  "replica.rejoined": { replicaId: ReplicaId; before: ReplicaId };
  "replica.stale": { replicaId: ReplicaId; silentForMs: number };
  "replica.dead": {
    replicaId: ReplicaId;
    because: DeathReason;
    silentForMs?: number | undefined;
    hostname?: string | undefined;
  };
  /** What a replica that was declared dead probably died of. */
  "replica.examined": { replicaId: ReplicaId; cause: string; sentence: string };
  /** It could not be found out or written down; recovery went on without. */
  "post-mortem.failed": { doing: string; error: unknown };
  "task.recovered": TaskRef & {
    replicaId: ReplicaId;
    action: "released" | "cancelled" | "failed" | "quarantined" | "retried";
    because: DeathReason | "by-hand";
  };
  /** The replica that swept before did not sweep when it was time. */
  "reaper.took-over": { replicaId: ReplicaId; before: ReplicaId; sweptAgoMs: number };
  /** Nobody has swept for too long, though somebody who could is alive. */
  "sweeps.stopped": { sweptAgoMs: number };
  /** No phase and no progress for longer than its definition allows. `action`: what was done about it. */
  "task.stalled": TaskRef & {
    replicaId: ReplicaId;
    quietForMs: number;
    phase: string | null;
    action: "alerted" | "failed" | "retried";
  };
  /** An event loop turns again, this process's or a runner's, after it had been blocked for long; where, as far as that could be seen. */
  "loop.blocked": { replicaId: ReplicaId; runnerId?: string; blockedForMs: number; stack: string | undefined };
  /** So many of one source of silence fell silent at once that its deaths are held back for a while: `dying` of `groups` machines, say (`counted`). */
  "recovery.held": { source: string; counted: string; groups: number; dying: number };
  /** A thread or process in which tasks run is ready. */
  "runner.started": { runnerId: string; replicaId: ReplicaId; kind: "thread" | "process"; pid: number };
  /** One has ended: `because` says whether its replica ended it, and why; `claimId` what it was running. */
  "runner.ended": {
    runnerId: string;
    replicaId: ReplicaId;
    kind: "thread" | "process";
    pid: number;
    because: string;
    exitCode: number | null;
    signal: string | null;
    message: string | undefined;
    claimId: ClaimId | undefined;
  };
  /** Runners of this kind cannot be started: no work is taken for them until one can. */
  "runners.suspended": {
    replicaId: ReplicaId;
    kind: "thread" | "process";
    failures: number;
    pauseMs: number;
    message: string;
  };
  "runners.resumed": { replicaId: ReplicaId; kind: "thread" | "process" };
  "recovery.resumed": { source: string; replicaId: ReplicaId };
  /** One thing failed, and the others were done; told once, until it could be done. */
  "sweep.passed-by": { what: string; error: unknown };
  "upkeep.passed-by": { what: string; error: unknown };
  /** A task, or a queue, made every claim fail. It was set aside or paused, with an alert; the others are claimed. */
  "claim.passed-by": { what: string; reason: string };
  /** Another transaction has kept its row locked for a while: its tasks are not claimed meanwhile. There is an alert. */
  "queue.locked": { queue: string };
  /** No task of the queue can be claimed, and no task is to blame: all of them stay. There is an alert until a claim goes through. */
  "claims.failing": { queue: string; reason: string };
  /** Lines of this process's log are being dropped: they cannot be written, or nobody reads them. There is an alert. */
  "log.dropped": { reason: string };
  /** They are written again. `dropped`: how many were not. */
  "log.back": { dropped: number };
  /** An alert was raised somewhere, by whichever process: told in every process that listens for it. */
  "alert.raised": AlertRow;
  "alert.resolved": AlertRow;
  /** A channel of this process did not take it. It is tried again, here or by another process. */
  "alert.not-delivered": { channel: string; alertId: string; change: AlertChange; tries: number; reason: string };
  "upkeep.done": { expired: number; unparked: number; cancelled: number; purged: number };
}

/**
 * What happens in the process of a supervisor, which has no tasks and no listeners of a user's: these events are for its log. Its children are
 * replicas, each in a process of its own, numbered by the place that it fills.
 */
export interface SupervisorEvents {
  "child.started": ChildRef;
  /** It has joined and its heart beats; or it has joined anew, and is another replica now. */
  "child.ready": ChildRef & { replicaId: ReplicaId };
  "child.leaving": ChildRef & { now: boolean };
  /** Its replica was declared dead, and it does not answer: it is killed, so that another can take its place. */
  "child.still": ChildRef;
  "child.exited": ChildRef & { exitCode: number | null; signal: string | null; wasAsked: boolean };
  "child.restarting": { child: number; pauseMs: number; exitsInARow: number };
  "child.looping": { child: number; exitsInARow: number };
  /** Every child is being replaced, one at a time. */
  "roll.begun": { children: readonly number[] };
  "roll.done": { children: readonly number[] };
  /** The first new child that did not become ready ended it. What was not replaced yet goes on as it is. */
  "roll.stopped": { child: number };
}

interface AllEvents extends EverbeatEvents, SupervisorEvents {}

/** Those that a user's program can subscribe to. */
export type EventName = keyof EverbeatEvents;
export type EventListener<N extends AnyEventName> = (event: AllEvents[N]) => void;
export type AnyEventName = keyof AllEvents;
export type AnyListener = <N extends AnyEventName>(name: N, event: AllEvents[N]) => void;

export class Events {
  readonly #listeners = new Map<AnyEventName, Set<(event: never) => void>>();
  readonly #all = new Map<AnyListener, (name: AnyEventName) => boolean>();
  readonly #onListenerError: (error: unknown, name: AnyEventName) => void;

  constructor(onListenerError: (error: unknown, name: AnyEventName) => void) {
    this.#onListenerError = onListenerError;
  }

  /** Returns the function that ends the subscription. */
  on<N extends AnyEventName>(name: N, listener: EventListener<N>): () => void {
    const listeners = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, listeners);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }

  /** Only those that it wants, where it can say so. */
  onAny(listener: AnyListener, wants: (name: AnyEventName) => boolean = () => true): () => void {
    this.#all.set(listener, wants);
    return () => this.#all.delete(listener);
  }

  /** Spares making events that nobody hears. */
  isHeard(name: AnyEventName): boolean {
    if ((this.#listeners.get(name)?.size ?? 0) > 0) return true;
    for (const wants of this.#all.values()) if (wants(name)) return true;
    return false;
  }

  emit<N extends AnyEventName>(name: N, event: AllEvents[N]): void {
    for (const listener of this.#listeners.get(name) ?? [])
      this.#call(name, () => (listener as EventListener<N>)(event));
    for (const [listener, wants] of this.#all) if (wants(name)) this.#call(name, () => listener(name, event));
  }

  #call(name: AnyEventName, listener: () => void): void {
    try {
      listener();
    } catch (error) {
      this.#onListenerError(error, name);
    }
  }
}
