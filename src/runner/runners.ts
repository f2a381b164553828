/** All runners of a worker: which tasks go to which, what its heart tells of them, and which have fallen silent. */
import type { RecoverySettings } from "../config/recovery-options.ts";
import { steadyNowMs } from "../heart/clock.ts";
import { GrowthWatch } from "../heart/growth.ts";
import type { RunnerSign } from "../heart/runner-signs.ts";
import type { RunnerRecord } from "../sql/runners.ts";
import type { AnyTask } from "../task/define-task.ts";
import type { ReplicaId } from "../task/ids.ts";
import type { RunIn } from "../task/settings.ts";
import type { RunnerBlockages } from "./blockages.ts";
import { openProcess } from "./process-channel.ts";
import type { Runner } from "./runner.ts";
import type { RunnerDeath, RunnerKind } from "./runner-death.ts";
import type { RunnerSettings } from "./runner-options.ts";
import type { RunnerGraces, RunnerParts } from "./runner-parts.ts";
import { type PoolJob, RunnerPool } from "./runner-pool.ts";
import { listeningOn, type RunnerListening, runnerSilenceMs } from "./runner-silence.ts";
import { openThread } from "./thread-channel.ts";

export interface RunnersParts {
  readonly tasks: readonly AnyTask[];
  readonly settings: RunnerSettings;
  readonly recovery: RecoverySettings;
  readonly replica: { readonly id: ReplicaId; readonly leaseFd: number | undefined };
  readonly schema: string;
  readonly resultLimitBytes: number;
  readonly abortGraceMs: number;
  /** How long what others may repeat has to stop: the replica's own promise allows for no more. */
  readonly cutOffGraceMs: number;
  /** How long after it was last heard the replica has promised to have stopped. */
  readonly leaseMs: number;
  /** For the replica's heart, to be carried with its next beats. */
  readonly carry: (signs: readonly RunnerSign[]) => void;
  /** Writes down how runners ended. */
  readonly note: (ended: readonly RunnerRecord[]) => Promise<void>;
  readonly onStarted: (runner: Runner) => void;
  readonly blockages: RunnerBlockages;
  readonly onDropped: RunnerParts["onDropped"];
  readonly onDeath: (death: RunnerDeath) => void;
  readonly onSuspended: (kind: RunnerKind, suspension: { failures: number; pauseMs: number; message: string }) => void;
  readonly onResumed: (kind: RunnerKind) => void;
}

const OPEN = { thread: openThread, process: openProcess };
const MAX_LOOK_MS = 500;
/** "Now" leaves a handler this long. */
const HURRY_MS = 500;

export class Runners {
  readonly #parts: RunnersParts;
  /** For the post-mortems of processes; undefined where only threads are used. */
  readonly #groupMemory: GrowthWatch | undefined;
  readonly #pools = new Map<RunIn, RunnerPool>();
  /** How runners ended, where that is not on record yet. */
  #unwritten: RunnerRecord[] = [];
  #writing: Promise<void> | undefined;
  readonly #lookEveryMs: number;
  #listening: RunnerListening;
  #looking: NodeJS.Timeout | undefined;

  constructor(parts: RunnersParts) {
    this.#parts = parts;
    this.#lookEveryMs = Math.min(MAX_LOOK_MS, parts.recovery.runningDeadAfterMs / 10);
    this.#listening = { sinceMs: performance.now(), lookedAtMs: performance.now() };
    const hasProcesses = parts.tasks.some(({ settings }) => settings.runIn === "process");
    this.#groupMemory = hasProcesses ? new GrowthWatch(() => this.#processes()) : undefined;
    for (const kind of ["thread", "process"] as const) {
      const tasks = parts.tasks.filter((task) => task.settings.runIn === kind);
      if (tasks.length > 0) this.#pools.set(kind, this.#createPool(kind, tasks));
    }
  }

  /** Whether there is anything for runners to do at all. */
  get areUsed(): boolean {
    return this.#pools.size > 0;
  }

  /** How many jobs can be under way in runners of this kind; undefined for what runs inline. */
  limitOf(runIn: RunIn): number | undefined {
    const pool = this.#pools.get(runIn);
    if (!pool) return undefined;
    return pool.isOpen ? this.#sizeOf(pool.kind) : 0;
  }

  start(): void {
    if (!this.areUsed) return;
    for (const pool of this.#pools.values()) pool.start();
    this.#looking = setInterval(() => this.#look(), this.#lookEveryMs);
  }

  /** Whether the task is for them. */
  take(task: AnyTask): boolean {
    return this.#pools.has(task.settings.runIn);
  }

  /** Like the task's own `runBatch`, elsewhere. */
  runBatch(job: PoolJob): Promise<readonly unknown[]> {
    const pool = this.#pools.get(job.task.settings.runIn) as RunnerPool;
    return pool.run(job);
  }

  /** Whatever still runs after a moment is ended. */
  hurry(): void {
    const running = [...this.#all()].filter((runner) => runner.state === "busy");
    setTimeout(() => {
      for (const runner of running) if (runner.state === "busy" || runner.state === "ending") runner.kill("aborted");
    }, HURRY_MS).unref();
  }

  async stop(): Promise<void> {
    // First: should a runner take too long to end, nobody waits for the rest of this.
    clearInterval(this.#looking);
    await Promise.all([...this.#pools.values()].map((pool) => pool.stop()));
    await Promise.all([this.#write(), this.#parts.blockages.settle()]);
  }

  *#all(): Iterable<Runner> {
    for (const pool of this.#pools.values()) yield* pool.runners;
  }

  #processes(): number[] {
    return [...this.#all()].flatMap(({ kind, pid }) => (kind === "process" && pid !== undefined ? [pid] : []));
  }

  #sizeOf(kind: RunnerKind): number {
    const { threads, processes } = this.#parts.settings;
    return kind === "thread" ? threads : processes;
  }

  #createPool(kind: RunnerKind, tasks: readonly AnyTask[]): RunnerPool {
    const { settings, recovery, replica, abortGraceMs, cutOffGraceMs, schema, resultLimitBytes } = this.#parts;
    const { onStarted, onSuspended, onResumed, onDropped, blockages } = this.#parts;
    const graces: RunnerGraces = {
      abortMs: abortGraceMs,
      cutOffMs: Math.min(abortGraceMs, cutOffGraceMs),
      terminateMs: Math.min(abortGraceMs, 1_000),
      leaveMs: 3_000,
      giveUpMs: 5_000,
    };
    return new RunnerPool({
      kind,
      open: OPEN[kind],
      size: this.#sizeOf(kind),
      charge: {
        modules: [...new Set(tasks.map((task) => task.settings.module as string))],
        names: tasks.map((task) => task.name),
        cwd: process.cwd(),
        schema,
        resultLimitBytes,
        leaseMs: this.#parts.leaseMs,
        stackAfterMs: recovery.blockedLoop.stackAfterMs,
        beatEveryMs: Math.min(MAX_LOOK_MS, recovery.runnerIntervalMs / 2),
      },
      ...{ settings, graces, replica, blockages, groupMemory: this.#groupMemory },
      onStarted,
      onDropped,
      onEnded: (death) => this.#onEnded(death),
      onSuspended: (suspension) => onSuspended(kind, suspension),
      onResumed: () => onResumed(kind),
    });
  }

  #onEnded(death: RunnerDeath): void {
    const { runnerId, kind, pid, livedMs, silentForMs, vitals, because, exitCode, signal, message } = death;
    this.#unwritten.push({
      ...{ id: runnerId, kind, pid, ageMs: livedMs, silentForMs, status: "ended", vitals, claims: [] },
      exit: { code: exitCode, signal, because, ...(message === undefined ? {} : { message }) },
    });
    this.#parts.onDeath(death);
    this.#parts.blockages.onEnded(runnerId);
    this.#carry();
    void this.#write();
  }

  /** Resolves when all of them are on record, or could not be written: they are tried again with the next look. */
  #write(): Promise<void> {
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = undefined;
    });
    return this.#writing;
  }

  /** One after the other: others end while one is written. */
  async #writeAll(): Promise<void> {
    while (this.#unwritten.length > 0) {
      const writing = this.#unwritten.splice(0);
      const isWritten = await this.#parts.note(writing).then(
        () => true,
        () => false,
      );
      if (isWritten) continue;
      this.#unwritten.unshift(...writing);
      return;
    }
  }

  #look(): void {
    const nowMs = performance.now();
    const { runningDeadAfterMs } = this.#parts.recovery;
    this.#listening = listeningOn(this.#listening, nowMs, this.#lookEveryMs);
    for (const runner of this.#all()) {
      // A thread whose loop is blocked is silent and well: it lives and dies with this process, whose heart beats for it.
      if (runner.kind === "thread" || runner.state === "starting" || runner.state === "ending") continue;
      if (runnerSilenceMs(runner.heardAtMs, this.#listening, nowMs) > runningDeadAfterMs) runner.kill("silent");
    }
    this.#groupMemory?.look();
    this.#carry();
    void this.#write();
    void this.#parts.blockages.settle();
  }

  #carry(): void {
    const nowMs = performance.now();
    const steadyMs = steadyNowMs();
    this.#parts.carry([...this.#all()].map((runner) => signOf(runner, steadyMs - nowMs)));
  }
}

/** By the steady clock, which is that much ahead of this process's own. */
function signOf(
  { id, kind, pid, state, vitals, attempts, startedAtMs, heardAtMs }: Runner,
  aheadMs: number,
): RunnerSign {
  return {
    ...{ id, kind, pid, vitals, status: state },
    startedAtMs: startedAtMs + aheadMs,
    heardAtMs: kind === "thread" ? undefined : heardAtMs + aheadMs,
    claims: attempts.map(({ claimId, taskId }) => ({ claimId, taskId })),
  };
}
