/**
 * The runners of one kind: made as they are needed, up to a number; given one job at a time; replaced when they end. When
 * they cannot be started, no work is taken for them, and what waits is given back, until one can.
 */
import type { AnyTask } from "../task/define-task.ts";
import type { ReplicaId } from "../task/ids.ts";
import { afterFailedStart, afterPause, type Breaker, type BreakerRule, CLOSED } from "./breaker.ts";
import type { OpenChannel } from "./channel.ts";
import { FreshContext } from "./fresh-context.ts";
import type { RunnerCharge } from "./protocol.ts";
import { Runner } from "./runner.ts";
import { isCrash, NoRunnerError, type RunnerDeath, type RunnerKind } from "./runner-death.ts";
import type { RunnerSettings } from "./runner-options.ts";
import type { RunnerGraces, RunnerJob, RunnerParts } from "./runner-parts.ts";

export interface RunnerPoolParts {
  readonly kind: RunnerKind;
  readonly open: OpenChannel;
  readonly size: number;
  readonly charge: RunnerCharge;
  readonly settings: RunnerSettings;
  readonly graces: RunnerGraces;
  readonly groupMemory: RunnerParts["groupMemory"];
  readonly blockages: RunnerParts["blockages"];
  readonly replica: { readonly id: ReplicaId; readonly leaseFd: number | undefined };
  readonly onStarted: (runner: Runner) => void;
  readonly onDropped: RunnerParts["onDropped"];
  readonly onEnded: (death: RunnerDeath) => void;
  /** They cannot be started, for this reason; or can again. */
  readonly onSuspended: (suspension: { failures: number; pauseMs: number; message: string }) => void;
  readonly onResumed: () => void;
}

export interface PoolJob extends Omit<RunnerJob, "name" | "replicaId"> {
  readonly task: AnyTask;
  /** It is suspected of having ended a runner: nothing else is in its runner, neither before nor after it. */
  readonly needsFresh: boolean;
  /** A runner has taken it. */
  readonly onBegun: () => void;
}

interface Waiting extends PoolJob {
  readonly resolve: (outcomes: readonly unknown[]) => void;
  readonly reject: (error: unknown) => void;
}

const RULE: BreakerRule = { failures: 3, firstPauseMs: 5_000, maxPauseMs: 60_000 };
const PAUSE_AFTER_FAILURE_MS = 100;

export class RunnerPool {
  readonly #parts: RunnerPoolParts;
  readonly #runners = new Set<Runner>();
  readonly #waiting: Waiting[] = [];
  /** Those that had a job which no other may follow. */
  readonly #spent = new WeakSet<Runner>();
  readonly #outside = new FreshContext();
  readonly #timers = new Set<NodeJS.Timeout>();
  #breaker: Breaker = CLOSED;
  /** How many were ever needed at once. */
  #wanted = 1;
  #isStopping = false;
  #onEmpty: (() => void)[] = [];

  constructor(parts: RunnerPoolParts) {
    this.#parts = parts;
  }

  get kind(): RunnerKind {
    return this.#parts.kind;
  }

  /** All that are alive, also those that are on their way out. */
  get runners(): ReadonlySet<Runner> {
    return this.#runners;
  }

  /** False: work for these runners is better left to others. */
  get isOpen(): boolean {
    return this.#breaker.kind === "closed" && !this.#isStopping;
  }

  /** One is made ahead, so that trouble is known before there is work. */
  start(): void {
    this.#fill();
  }

  run(job: PoolJob): Promise<readonly unknown[]> {
    return new Promise((resolve, reject) => {
      if (!this.isOpen) return reject(this.#noRunner("none could be started of late"));
      const waiting = { ...job, resolve, reject };
      this.#waiting.push(waiting);
      for (const { context } of job.items) context.signal.addEventListener("abort", () => this.#dropIfOver(waiting));
      this.#dropIfOver(waiting);
      this.#pump();
      this.#wanted = Math.min(this.#parts.size, Math.max(this.#wanted, this.#busy + this.#waiting.length));
      this.#fill();
    });
  }

  /** Ends them all, by force where they do not end by themselves. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    for (const timer of this.#timers) clearTimeout(timer);
    this.#giveBackWaiting("its worker stops");
    for (const runner of this.#runners) {
      if (runner.state === "idle") runner.leave("stopped");
      else runner.kill("stopped");
    }
    if (this.#runners.size > 0) await new Promise<void>((resolve) => this.#onEmpty.push(resolve));
  }

  get #busy(): number {
    return [...this.#runners].filter((runner) => runner.state === "busy").length;
  }

  get #staying(): number {
    return [...this.#runners].filter(isStaying).length;
  }

  /** In their order; but a job that waits for a fresh runner holds up nobody. */
  #pump(): void {
    const { id: replicaId } = this.#parts.replica;
    for (const job of [...this.#waiting]) {
      const runner = this.#idleFor(job);
      if (!runner) continue;
      this.#waiting.splice(this.#waiting.indexOf(job), 1);
      if (job.needsFresh) this.#spent.add(runner);
      job.onBegun();
      // Where the job cannot be sent (its input is too deep for JSON, say), it fails, and the runner stays idle for the next.
      runner.run({ ...job, name: job.task.name, replicaId }).then(job.resolve, job.reject);
    }
  }

  #idleFor({ needsFresh }: PoolJob): Runner | undefined {
    const idle = [...this.#runners].filter(({ state }) => state === "idle");
    const fresh = idle.find(isFresh);
    return needsFresh ? fresh : (idle.find((runner) => !isFresh(runner)) ?? fresh);
  }

  /** Runners that were used make room for the fresh ones that jobs wait for. */
  #retireForFresh(): void {
    const needed = this.#waiting.filter(({ needsFresh }) => needsFresh).length;
    const staying = [...this.#runners].filter(isStaying);
    const coming = staying.filter(isFresh).length + Math.max(0, this.#wanted - staying.length);
    const used = staying.filter((runner) => runner.state === "idle" && !isFresh(runner));
    for (const runner of used.slice(0, Math.max(0, needed - coming))) runner.leave("recycled");
  }

  /** Everything in it was told to stop before there was a runner for it. */
  #dropIfOver(job: Waiting): void {
    const index = this.#waiting.indexOf(job);
    if (index < 0 || !job.items.every(({ context }) => context.signal.aborted)) return;
    this.#waiting.splice(index, 1);
    job.reject(job.items[0]?.context.signal.reason);
  }

  #fill(): void {
    if (this.#isStopping || this.#breaker.kind === "open") return;
    this.#retireForFresh();
    if (this.#breaker.kind === "half-open") this.#tryOne();
    else while (this.#staying < this.#wanted) this.#make();
  }

  /** Beside those that live: that they could be started some time ago says nothing of now. */
  #tryOne(): void {
    if (![...this.#runners].some(({ state }) => state === "starting")) this.#make();
  }

  #make(): void {
    const { kind, open, charge, settings, graces, groupMemory, replica, blockages, onDropped } = this.#parts;
    const runnerParts: RunnerParts = {
      ...{ kind, open, charge, graces, groupMemory, blockages, onDropped },
      heapLimitMb: settings.heapLimitMb,
      leaseFd: replica.leaseFd,
      startTimeoutMs: settings.startTimeoutMs,
      onReady: () => this.#onReady(runner),
      onIdle: () => this.#onIdle(runner),
      onEnded: (_, death) => this.#onEnded(runner, death),
    };
    // A runner outlives the task that needed it first, and is no part of that task.
    const runner: Runner = this.#outside.run(() => new Runner(runnerParts));
    this.#runners.add(runner);
  }

  #onReady(runner: Runner): void {
    const wasOpen = this.#breaker.kind === "closed";
    this.#breaker = CLOSED;
    this.#parts.onStarted(runner);
    if (!wasOpen) this.#parts.onResumed();
    this.#pump();
    this.#fill();
  }

  #onIdle(runner: Runner): void {
    const { recycleAfter, maxMemoryBytes } = this.#parts.settings;
    const isWorn = runner.jobs >= recycleAfter || runner.memory > maxMemoryBytes || runner.isTainted;
    if (isWorn || this.#spent.has(runner)) runner.leave("recycled");
    this.#pump();
    this.#fill();
  }

  #onEnded(runner: Runner, death: RunnerDeath): void {
    this.#runners.delete(runner);
    this.#parts.onEnded(death);
    if (this.#runners.size === 0) for (const resolve of this.#onEmpty.splice(0)) resolve();
    if (this.#isStopping) return;
    // One that goes down before it has had anything to do is as good as one that does not start.
    const isFailure = death.because === "unstarted" || (isCrash(death) && runner.jobs === 0);
    if (isFailure) this.#onFailedStart(death);
    else this.#fill();
  }

  #onFailedStart(death: RunnerDeath): void {
    const message = death.message ?? `it ended with ${death.signal ?? `exit code ${death.exitCode}`}`;
    this.#breaker = afterFailedStart(this.#breaker, RULE, performance.now());
    if (this.#breaker.kind === "closed") {
      this.#later(PAUSE_AFTER_FAILURE_MS * this.#breaker.failures, () => this.#fill());
      return;
    }
    if (this.#breaker.kind !== "open") return;
    this.#giveBackWaiting(message);
    const { failures, pauseMs } = this.#breaker;
    this.#parts.onSuspended({ failures, pauseMs, message });
    this.#later(pauseMs + 1, () => {
      this.#breaker = afterPause(this.#breaker, performance.now());
      this.#fill();
    });
  }

  #giveBackWaiting(why: string): void {
    for (const job of this.#waiting.splice(0)) job.reject(this.#noRunner(why));
  }

  #noRunner(why: string): NoRunnerError {
    return new NoRunnerError(this.kind, why);
  }

  #later(ms: number, step: () => void): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      step();
    }, ms);
    this.#timers.add(timer);
  }
}

/** Not on its way out. */
function isStaying({ state }: Runner): boolean {
  return state !== "ending" && state !== "ended";
}

/** Nothing of a user's has run in it, but for what its modules do when they are loaded. */
function isFresh({ jobs }: Runner): boolean {
  return jobs === 0;
}
