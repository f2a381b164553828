/** What the scenes of the demo play with: the database, the workers, the storyteller, and what was promised so far. */
import type { Everbeat } from "../../everbeat.ts";
import type { TaskSummary } from "../../index.ts";
import type { TaskId } from "../../task/ids.ts";
import { DemoFailedError, DemoInterruptedError } from "../errors.ts";
import { demoBlock, demoHungry, demoPoison, demoStep } from "./demo-tasks.ts";
import type { Storyteller } from "./storyteller.ts";
import { startWorkerProcess, type WorkerProcess } from "./worker-process.ts";

/** What the summary counts. */
export interface Tally {
  workersKilled: number;
  workersFrozen: number;
  /** Processes that workers had started for a task. */
  runnersLost: number;
  loopsBlocked: number;
  tasksTakenBack: number;
  /** Tasks that were meant to end in quarantine. */
  poisonous: number;
  /** From kill -9 until its death was known. */
  crashKnownMs: number | undefined;
}

export interface Scene {
  readonly title: string;
  play(stage: Stage): Promise<void>;
}

const PATIENCE_MS = 60_000;
const LOOK_EVERY_MS = 50;

export class Stage {
  readonly everbeat: Everbeat;
  readonly story: Storyteller;
  readonly tally: Tally = {
    workersKilled: 0,
    workersFrozen: 0,
    runnersLost: 0,
    loopsBlocked: 0,
    tasksTakenBack: 0,
    poisonous: 0,
    crashKnownMs: undefined,
  };
  /** Every task that the database has accepted. */
  readonly accepted: TaskId[] = [];
  /** Every worker that was ever started, to be stopped in the end. */
  readonly everyWorker: WorkerProcess[] = [];
  /** Those still in the play. */
  readonly workers: WorkerProcess[] = [];
  readonly #databaseUrl: string;
  readonly #signal: AbortSignal;

  constructor(parts: { everbeat: Everbeat; story: Storyteller; databaseUrl: string; signal: AbortSignal }) {
    this.everbeat = parts.everbeat;
    this.story = parts.story;
    this.#databaseUrl = parts.databaseUrl;
    this.#signal = parts.signal;
  }

  async addWorker(): Promise<WorkerProcess> {
    const name = String.fromCharCode("A".charCodeAt(0) + this.everyWorker.length);
    this.story.now(`starting worker ${name}`);
    const worker = await startWorkerProcess(name, this.#databaseUrl);
    this.everyWorker.push(worker);
    this.workers.push(worker);
    this.story.good(`Worker ${name} is up: process ${worker.pid}, replica ${worker.replicaId}.`);
    return worker;
  }

  /** It takes no further part; whether it still runs is another matter. */
  dismiss(worker: WorkerProcess): void {
    this.workers.splice(this.workers.indexOf(worker), 1);
  }

  async enqueueSteps(workMs: readonly number[]): Promise<TaskId[]> {
    const ids = await this.everbeat.enqueueMany(
      demoStep,
      workMs.map((ms) => ({ workMs: ms })),
    );
    this.accepted.push(...ids);
    return ids;
  }

  /** Accepted like any other. */
  async enqueuePoison(): Promise<TaskId> {
    this.tally.poisonous++;
    return this.#accept(await this.everbeat.enqueue(demoPoison, {}));
  }

  async enqueueHungry(): Promise<TaskId> {
    return this.#accept(await this.everbeat.enqueue(demoHungry, {}));
  }

  async enqueueBlock(workMs: number): Promise<TaskId> {
    return this.#accept(await this.everbeat.enqueue(demoBlock, { workMs }));
  }

  /** Which worker has it, or had it last. */
  workerOf({ id, replicaId }: TaskSummary): WorkerProcess {
    const worker = this.everyWorker.find((each) => each.replicaId === replicaId);
    if (!worker) throw new DemoFailedError(`task ${id} is with ${replicaId}, which is no worker of this demo.`);
    return worker;
  }

  async runningOn(worker: WorkerProcess): Promise<readonly TaskSummary[]> {
    return (await this.everbeat.tasks.list({ state: "running", replicaId: worker.replicaId })).tasks;
  }

  /** Looks until there is something to see, and gives up with the reason why the play cannot go on. */
  async until<T>(what: string, look: () => Promise<T | undefined | false>): Promise<T> {
    const givingUpAt = performance.now() + PATIENCE_MS;
    for (;;) {
      if (this.#signal.aborted) throw new DemoInterruptedError();
      const seen = await look();
      if (seen !== undefined && seen !== false) return seen;
      if (performance.now() > givingUpAt)
        throw new DemoFailedError(`waited ${PATIENCE_MS / 1_000} s in vain for ${what}.`);
      await this.pause(LOOK_EVERY_MS);
    }
  }

  #accept(id: TaskId): TaskId {
    this.accepted.push(id);
    return id;
  }

  async pause(ms: number): Promise<void> {
    await new Promise((resume) => setTimeout(resume, ms));
  }
}
