/**
 * One runner: started, given one job after the other, told to stop its handlers, and ended when they do not, when its heart
 * falls silent, or when it has done its share.
 */
import { randomUUID } from "node:crypto";
import { setMaxListeners } from "node:events";
import { hostname } from "node:os";
import type { TaskRef } from "../events.ts";
import type { BatchItem } from "../task/define-task.ts";
import { ClaimLostError, CutOffError } from "../task/errors.ts";
import { Timer } from "../timer.ts";
import { carryError, reviveError } from "./carried-error.ts";
import { carryItem, reviveOutcome } from "./carried-item.ts";
import type { RunnerChannel, RunnerExit } from "./channel.ts";
import type { ClaimHandle } from "./claim-handle.ts";
import { callOnContext } from "./context-calls.ts";
import { openChannel } from "./open-channel.ts";
import { type FromRunner, longestMessage, type RunnerVitals } from "./protocol.ts";
import { NOTHING_BEFORE, withJob } from "./ran-before.ts";
import { type RunnerDeath, RunnerEndedError, type RunnerEndReason, type RunnerKind } from "./runner-death.ts";
import type { RunnerJob, RunnerParts } from "./runner-parts.ts";

interface Job {
  readonly number: number;
  readonly items: readonly BatchItem<never>[];
  /** Those that have come, each in its place. */
  readonly outcomes: unknown[];
  readonly over: AbortController;
  readonly onOwnStop: () => void;
  readonly resolve: (outcomes: readonly unknown[]) => void;
  readonly reject: (error: unknown) => void;
}

export class Runner {
  readonly id = randomUUID() as string;
  readonly startedAtMs = performance.now();
  readonly #seal = randomUUID() as string;
  readonly #parts: RunnerParts;
  readonly #channel: RunnerChannel;
  #state: "starting" | "idle" | "busy" | "ending" | "ended" = "starting";
  #job: Job | undefined;
  #jobs = 0;
  #before = NOTHING_BEFORE;
  #because: RunnerEndReason | undefined;
  #failure: string | undefined;
  #heardAtMs = performance.now();
  #vitals: RunnerVitals | undefined;
  #earlier: { atMs: number; vitals: RunnerVitals } | undefined;
  #memory = 0;
  #isTainted = false;
  /** Where its loop is blocked. */
  #stack: string | undefined;
  #onLateError: RunnerJob["onLateError"] | undefined;
  /** Its last job is over, and is told of when it has ended. */
  #toSettle: (() => void) | undefined;
  #endTimer: Timer | undefined;

  constructor(parts: RunnerParts) {
    this.#parts = parts;
    this.#channel = openChannel(
      parts.open,
      {
        onMessage: (message) => this.#hear(message),
        onGarbled: (why) => this.#onGarbled(why),
        onExit: (exit) => this.#onExit(exit),
      },
      {
        ...{ heapLimitMb: parts.heapLimitMb, leaseFd: parts.leaseFd, stackAfterMs: parts.charge.stackAfterMs },
        ...{ seal: this.#seal, longestMessage: longestMessage(parts.charge.resultLimitBytes) },
      },
    );
    this.#channel.send({ type: "begin", charge: parts.charge, seal: this.#seal });
    this.#endTimer = new Timer(parts.startTimeoutMs, () => {
      this.#failure = `it was not ready within ${parts.startTimeoutMs} ms`;
      this.kill("unstarted");
    });
  }

  get kind(): RunnerKind {
    return this.#parts.kind;
  }

  get pid(): number {
    return this.#channel.pid;
  }

  get state(): "starting" | "idle" | "busy" | "ending" | "ended" {
    return this.#state;
  }

  /** How many jobs it has had. */
  get jobs(): number {
    return this.#jobs;
  }

  /** Memory in use after its last job, in bytes. */
  get memory(): number {
    return this.#memory;
  }

  /** Something of an earlier job may still go on in it. */
  get isTainted(): boolean {
    return this.#isTainted;
  }

  get heardAtMs(): number {
    return this.#heardAtMs;
  }

  get vitals(): RunnerVitals | undefined {
    return this.#vitals;
  }

  get attempts(): readonly TaskRef[] {
    return (this.#job?.items ?? []).map(({ context: { task, claim } }) => ({
      taskId: task.id,
      claimId: claim.id,
      name: task.name,
      attempt: task.attempt,
    }));
  }

  /** Rejects with a RunnerEndedError if it ends in the middle of it; and stays idle where the job cannot be handed over. */
  run({ name, items, replicaId, mustStop, onOwnStop, onLateError }: RunnerJob): Promise<readonly unknown[]> {
    return new Promise((resolve, reject) => {
      const number = this.#jobs + 1;
      const sent = items.map((item) => carryItem(item, replicaId));
      // Throws where an input cannot be written as JSON again.
      this.#channel.send({ type: "run", job: number, name, items: sent, mustStop });
      const job: Job = { number, items, outcomes: [], over: new AbortController(), onOwnStop, resolve, reject };
      this.#state = "busy";
      this.#jobs = number;
      this.#job = job;
      this.#onLateError = onLateError;
      // One listener for each item of a batch. Node warns of more than ten.
      setMaxListeners(0, job.over.signal);
      items.forEach(({ context: { signal } }, index) => {
        const onAbort = () => this.#abort(job, index);
        if (signal.aborted) onAbort();
        else signal.addEventListener("abort", onAbort, { signal: job.over.signal });
      });
    });
  }

  /** It has nothing to do and is not needed any more. */
  leave(because: RunnerEndReason, withinMs = this.#parts.graces.leaveMs): void {
    if (this.#isEnding) return;
    this.#beginEnd(because);
    this.#channel.send({ type: "leave", withinMs });
    this.#nextStepAfter(withinMs, () => this.#killNow());
  }

  /** It is asked to end, and ended if it does not. */
  end(because: RunnerEndReason): void {
    if (this.#isEnding) return;
    this.#beginEnd(because);
    const withinMs = this.#parts.graces.terminateMs;
    this.#channel.send({ type: "end", withinMs });
    this.#channel.terminate();
    this.#nextStepAfter(withinMs, () => this.#killNow());
  }

  kill(because: RunnerEndReason): void {
    if (this.#state === "ended") return;
    this.#beginEnd(because);
    this.#killNow();
  }

  get #isEnding(): boolean {
    return this.#state === "ending" || this.#state === "ended";
  }

  #beginEnd(because: RunnerEndReason): void {
    this.#because ??= because;
    this.#state = "ending";
  }

  #killNow(): void {
    this.#channel.kill();
    this.#nextStepAfter(this.#parts.graces.giveUpMs, () =>
      this.#onExit({ exitCode: null, signal: null, message: "it cannot be ended and was left to itself" }),
    );
  }

  #nextStepAfter(ms: number, step: () => void): void {
    this.#endTimer?.stop();
    this.#endTimer = new Timer(ms, step);
  }

  /** Told to stop, and ended after the grace once nobody in the job is left who may go on. */
  #abort(job: Job, index: number): void {
    const { graces } = this.#parts;
    const reason: unknown = job.items[index]?.context.signal.reason;
    this.#channel.send({ type: "abort", job: job.number, item: index, reason: carryError(reason) });
    if (!job.items.every(({ context }) => context.signal.aborted)) return;
    const mayBeRepeated = reason instanceof CutOffError || reason instanceof ClaimLostError;
    const timer = new Timer(mayBeRepeated ? graces.cutOffMs : graces.abortMs, () =>
      mayBeRepeated ? this.kill("aborted") : this.end("aborted"),
    );
    job.over.signal.addEventListener("abort", () => timer.stop());
  }

  #hear(message: FromRunner): void {
    switch (message.type) {
      case "ready":
        this.#onReady();
        break;
      case "failed":
        this.#failure = message.error.message;
        this.kill("unstarted");
        break;
      case "beat":
        if (this.#vitals) this.#earlier = { atMs: this.#heardAtMs, vitals: this.#vitals };
        this.#heardAtMs = performance.now();
        this.#vitals = message.vitals;
        break;
      case "blocked":
        this.#stack = message.sight.stack;
        this.#parts.blockages.onBlocked(this, message.sight);
        break;
      case "turned":
        this.#stack = undefined;
        this.#parts.blockages.onTurned(this, message.blockedMs);
        break;
      case "cut-off":
        this.#because ??= "cut-off";
        break;
      case "call":
        callOnContext(this.#item(message)?.context, message.name, message.args);
        break;
      case "dropped":
        this.#parts.onDropped(message.lines, message.reason);
        break;
      case "completing":
        (this.#item(message)?.context.claim as ClaimHandle | undefined)?.noteCompletedInTransaction();
        break;
      case "own-stop":
        if (this.#job?.number === message.job) this.#job.onOwnStop();
        break;
      case "late-error":
        this.#isTainted = true;
        this.#onLateError?.(message.task, reviveError(message.error));
        if (this.#state === "idle") this.#parts.onIdle(this);
        break;
      case "outcome":
        if (this.#item(message)) (this.#job as Job).outcomes[message.item] = reviveOutcome(message.outcome);
        break;
      case "ended":
        this.#onJobEnded(message);
        break;
      default:
        message satisfies never;
    }
  }

  /** Nothing that it says can be believed any more. */
  #onGarbled(why: string): void {
    this.#failure ??= why;
    this.kill("garbled");
  }

  #onReady(): void {
    if (this.#state !== "starting") return;
    this.#endTimer?.stop();
    this.#state = "idle";
    this.#parts.onReady(this);
  }

  #item({ job, item }: { job: number; item: number }): BatchItem<never> | undefined {
    return this.#job?.number === job ? this.#job.items[item] : undefined;
  }

  #onJobEnded(message: FromRunner & { type: "ended" }): void {
    const job = this.#job;
    if (!job || job.number !== message.job) return;
    this.#memory = message.memory;
    this.#isTainted = message.isTainted;
    this.#before = withJob(this.#before, this.attempts, job.outcomes);
    this.#endJob();
    const settle = () => job.resolve(job.outcomes);
    // They end with the runner, also where it is being ended already.
    if (message.leavesProcesses) this.#toSettle = settle;
    else settle();
    // A runner that is being ended gets no other job, also where it has ended its last one in time.
    if (this.#state !== "busy") return;
    if (message.leavesProcesses) return void this.leave("left-behind", this.#parts.graces.terminateMs);
    this.#state = "idle";
    this.#parts.onIdle(this);
  }

  #endJob(): void {
    this.#job?.over.abort();
    this.#job = undefined;
  }

  #onExit(exit: RunnerExit): void {
    if (this.#state === "ended") return;
    const because = this.#because ?? (this.#state === "starting" ? "unstarted" : "exited");
    const death: RunnerDeath = {
      runnerId: this.id,
      kind: this.kind,
      pid: this.pid,
      hostname: hostname(),
      because,
      exitCode: exit.exitCode,
      signal: exit.signal,
      message: this.#failure ?? exit.message,
      livedMs: performance.now() - this.startedAtMs,
      silentForMs: performance.now() - this.#heardAtMs,
      vitals: this.#vitals,
      earlier: this.#earlier && { agoMs: performance.now() - this.#earlier.atMs, vitals: this.#earlier.vitals },
      heapLimitMb: this.#parts.heapLimitMb,
      stack: this.#stack,
      stderrTail: this.#channel.stderrTail(),
      attempts: this.attempts,
      before: this.#before,
      group: this.kind === "process" ? this.#parts.groupMemory?.sign(this.pid) : undefined,
    };
    const job = this.#job;
    this.#state = "ended";
    this.#endTimer?.stop();
    this.#endJob();
    this.#parts.onEnded(this, death);
    this.#toSettle?.();
    job?.reject(new RunnerEndedError(death));
  }
}
