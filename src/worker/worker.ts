/**
 * A worker: the part of a replica that takes tasks, runs them and writes what came of it.
 *
 *   claimer ──claimed──▶ hand ──start──▶ execution ──ending──▶ finisher ──outcome──▶ database
 *      ▲                  ▲                  │ signal
 *      └──── free slot ───┴────── watch ─────┘  (cancelled? claim lost?)
 */
import type { Database } from "../database/database.ts";
import type { Notices } from "../database/notices.ts";
import type { Events, TaskRef } from "../events.ts";
import type { Logger } from "../log.ts";
import { type ClaimedTask, releaseClaims, startClaims } from "../sql/claims.ts";
import type { AnyTask } from "../task/define-task.ts";
import { ClaimLostError, WorkerStoppingError } from "../task/errors.ts";
import type { ClaimId, ReplicaId } from "../task/ids.ts";
import { createClaimWatch } from "./claim-watch.ts";
import { Claimer, type Demand } from "./claimer.ts";
import { demandOf, NO_DEMAND } from "./demand.ts";
import { createExecution, type Execution, type ExecutionParts, runGroup } from "./execution.ts";
import { Finisher } from "./finisher.ts";
import { giveBackUnknown } from "./give-back.ts";
import { type Group, Hand } from "./hand.ts";
import type { WorkSettings } from "./options.ts";
import { Outages } from "./outages.ts";
import { type Ending, outcomeOf } from "./outcome.ts";
import { averaged } from "./prefetch.ts";
import type { Replica } from "./replica.ts";
import type { Service } from "./service.ts";
import { Slots } from "./slots.ts";
import { catchStrayRejections } from "./stray-rejections.ts";
import { createUpkeep } from "./upkeep-service.ts";
import { atMost, Changes } from "./waiting.ts";

/** A task claimed ahead that has waited this long is given back: another worker may have a slot for it. */
const GIVE_BACK_AFTER_MS = 2_000;
/** How long a stopping worker tries to write its last outcomes while the database is away. */
const LAST_WRITES_MS = 10_000;
/** The same, and how long handlers may take to stop, once somebody has said "now". */
const AT_ONCE_MS = 1_000;

export interface WorkerParts {
  readonly database: Database;
  readonly notices: Notices;
  readonly events: Events;
  readonly log: Logger;
  readonly tasks: readonly AnyTask[];
  readonly settings: WorkSettings;
  readonly resultLimitBytes: number;
  readonly replica: Replica;
}

export class Worker {
  readonly #parts: WorkerParts;
  readonly #outages: Outages;
  readonly #slots: Slots;
  readonly #hand: Hand;
  readonly #finisher: Finisher;
  readonly #claimer: Claimer;
  readonly #strays = catchStrayRejections();
  readonly #execution: ExecutionParts;
  readonly #largestBatch: number;
  readonly #watch: Service;
  readonly #upkeep: Service;
  readonly #changes = new Changes();
  #averageMs: number | undefined;
  #isStarting = false;
  #isInHurry = false;
  #stopped: Promise<void> | undefined;
  #unsubscribe: () => void = () => {};

  constructor(parts: WorkerParts) {
    const { database, notices, events, settings, tasks, replica } = parts;
    this.#parts = parts;
    this.#outages = new Outages(events);
    this.#slots = new Slots(settings.concurrency, settings.queueLimits);
    this.#hand = new Hand(new Map(tasks.map((task) => [task.name, task])), this.#slots);
    this.#largestBatch = Math.max(...tasks.map((task) => task.batchSize));
    this.#finisher = new Finisher({
      database,
      outages: this.#outages,
      onUnparked: () => this.#claimer.lookFromTheBeginning(),
    });
    this.#execution = {
      schema: database.schema,
      replicaId: replica.id,
      log: parts.log,
      middleware: settings.middleware,
      resultLimitBytes: parts.resultLimitBytes,
      abortGraceMs: settings.abortGraceMs,
      strays: this.#strays,
    };
    this.#claimer = new Claimer({
      database,
      notices,
      outages: this.#outages,
      replicaId: replica.id,
      names: tasks.map((task) => task.name),
      queues: settings.queues,
      pollMs: settings.pollMs,
      demand: () => this.#demand(),
      known: () => this.#hand.claims(),
      onClaimed: (claimed) => this.#onClaimed(claimed),
      onAdopted: (adopted) => this.#onAdopted(adopted),
    });
    const onError = (doing: string) => (error: unknown) => this.#outages.noticed(error, doing);
    this.#watch = createClaimWatch({
      database,
      replicaId: replica.id,
      hand: this.#hand,
      intervalMs: settings.pollMs,
      onLooked: () => this.#onLooked(),
      onUnknown: () => this.#claimer.lookForOwn(),
      onLost: ({ claimed }) => events.emit("claim.lost", { ...refOf(claimed), refusedOutcome: undefined }),
      onError: onError("watching claims"),
    });
    this.#upkeep = createUpkeep({ database, events, retention: settings.retention, onError: onError("doing upkeep") });
  }

  get replicaId(): ReplicaId {
    return this.#parts.replica.id;
  }

  get running(): number {
    return this.#hand.running.size;
  }

  start(): void {
    const { notices, events, tasks, settings } = this.#parts;
    this.#unsubscribe = notices.on("changed", (replicaId) => replicaId === this.replicaId && this.#watch.trigger());
    this.#claimer.start();
    this.#watch.start();
    this.#upkeep.start();
    events.emit("worker.started", {
      replicaId: this.replicaId,
      tasks: tasks.map((task) => task.name),
      concurrency: settings.concurrency,
    });
  }

  /**
   * Stops claiming, gives back what has not started, lets what runs end within the grace, then aborts it.
   * `now`: no grace; running tasks are aborted, and those that do not stop at once are left to themselves.
   * Idempotent; every call waits for the end.
   */
  stop(options: { now?: boolean } = {}): Promise<void> {
    this.#isInHurry ||= options.now === true;
    if (this.#isInHurry) this.#abortRunning();
    this.#stopped ??= this.#stopOnce(options.now ? 0 : this.#parts.settings.shutdownGraceMs);
    return this.#stopped;
  }

  async #stopOnce(graceMs: number): Promise<void> {
    const { events, replica, settings } = this.#parts;
    events.emit("worker.stopping", { replicaId: this.replicaId, running: this.running });
    await this.#patiently(Promise.all([this.#claimer.stop(), replica.setStatus("draining").catch(() => {})]));
    await this.#release(this.#hand.takePrefetched());
    await this.#changes.until(() => this.#hand.isEmpty, graceMs);
    this.#abortRunning();
    await this.#changes.until(() => this.#hand.isEmpty, settings.abortGraceMs + 1_000);
    await this.#patiently(this.#finisher.idle());
    this.#finisher.giveUp();
    this.#unsubscribe();
    await this.#patiently(Promise.all([this.#watch.stop(), this.#upkeep.stop()]));
    await this.#patiently(this.#leave());
    this.#strays.close();
    events.emit("worker.stopped", { replicaId: this.replicaId });
  }

  async #leave(): Promise<void> {
    const { database, replica } = this.#parts;
    await giveBackUnknown(database, replica.id, this.#hand.claims()).catch(() => {});
    await replica.setStatus("offline").catch(() => {});
  }

  /** What a stopping worker has to do with the database, which may be away: waited for, but not for ever. */
  #patiently(work: Promise<unknown>): Promise<void> {
    return atMost(this.#isInHurry ? AT_ONCE_MS : LAST_WRITES_MS, work);
  }

  #demand(): Demand {
    const { settings } = this.#parts;
    if (this.#isStopping || this.#finisher.held >= settings.maxHeldOutcomes) return NO_DEMAND;
    return demandOf({
      settings: this.#hand.isOverstocked ? { ...settings, prefetch: 0 } : settings,
      slots: this.#slots,
      prefetched: this.#hand.prefetched,
      averageMs: this.#averageMs,
      largestBatch: this.#largestBatch,
    });
  }

  get #isStopping(): boolean {
    return this.#stopped !== undefined;
  }

  #onClaimed(claimed: readonly ClaimedTask[]): void {
    const started = claimed.filter((task) => task.state === "running");
    this.#hand.addPrefetched(
      claimed.filter((task) => task.state === "claimed"),
      performance.now(),
    );
    for (const task of started) {
      this.#slots.take(task.queue);
      this.#run({ task: this.#taskNamed(task.name), members: [task] });
    }
    void this.#startPrefetched();
  }

  /** Claimed under our id without our knowing: whatever their state, none of their code has run. */
  #onAdopted(adopted: readonly ClaimedTask[]): void {
    for (const task of adopted) this.#parts.events.emit("claim.adopted", refOf(task));
    this.#onClaimed(adopted);
  }

  /** One statement at a time starts all for which there is a slot; durable before any of their code runs. */
  async #startPrefetched(): Promise<void> {
    if (this.#isStarting || this.#isStopping) return;
    this.#isStarting = true;
    try {
      while (!this.#isStopping) {
        const groups = this.#hand.takeStartable();
        if (groups.length === 0) return;
        await this.#startGroups(groups);
      }
    } finally {
      this.#isStarting = false;
    }
  }

  async #startGroups(groups: readonly Group[]): Promise<void> {
    const claims = groups.flatMap((group) => group.members.map((member) => member.claimId));
    const started = await startClaims(this.#parts.database, claims).catch((error: unknown) => {
      // Not known whether they are running now. Forgotten here, found again by the claimer, which looks for its own.
      this.#outages.noticed(error, "starting tasks");
      return undefined;
    });
    if (!started) {
      this.#hand.dropStarting(claims);
      this.#claimer.lookForOwn();
    }
    const running = new Set(started);
    for (const group of groups) {
      const members = group.members.filter((member) => running.has(member.claimId));
      const lost = started ? group.members.filter((member) => !running.has(member.claimId)) : [];
      this.#hand.dropStarting(lost.map((member) => member.claimId));
      for (const member of lost) this.#parts.events.emit("claim.lost", { ...refOf(member), refusedOutcome: undefined });
      if (members.length > 0) this.#run({ task: group.task, members });
      else this.#slots.give(group.members[0]?.queue ?? "");
    }
    this.#changes.announce();
  }

  #run({ task, members }: Group): void {
    const executions = members.map((member) => createExecution(task, member, this.#execution));
    for (const execution of executions) {
      this.#hand.begin(execution);
      this.#parts.events.emit("task.started", refOf(execution.claimed));
    }
    void runGroup(executions, this.#execution, (execution, ending) => this.#onEnding(execution, ending)).then(() => {
      this.#slots.give(members[0]?.queue ?? "");
      this.#averageMs = averaged(this.#averageMs, performance.now() - (executions[0]?.startedAtMs ?? 0));
      this.#changes.announce();
      void this.#startPrefetched();
      this.#claimer.wake();
    });
  }

  #onEnding(execution: Execution, ending: Ending): void {
    const { events, replica } = this.#parts;
    const { claimed, task, claim, signal } = execution;
    const ref = refOf(claimed);
    const abortReason: unknown = signal.aborted ? signal.reason : undefined;
    if (ending.kind === "abandoned") {
      events.emit("handler.abandoned", {
        ...ref,
        reason: abortReason instanceof Error ? abortReason.message : String(abortReason),
      });
    }
    const outcome = outcomeOf(
      {
        ref: { claim: claimed.claimId, task: claimed.taskId, replica: replica.id },
        failures: claimed.failures,
        ending,
        abortReason,
        completedInTransaction: claim.completedInTransaction,
      },
      task.settings,
      Math.random(),
    );
    this.#hand.finishing(claimed.claimId);
    if (!outcome) {
      this.#hand.finished(claimed.claimId);
      return;
    }
    const durationMs = performance.now() - execution.startedAtMs;
    void this.#finisher.finish(outcome).then((verdict) => {
      // Stays known: its code has run, so it must not be taken for a claim whose reply was lost.
      if (verdict === "given-up") return;
      this.#hand.finished(claimed.claimId);
      if (verdict === "late") {
        execution.abort(new ClaimLostError(claimed.claimId, claimed.taskId));
        return events.emit("claim.lost", { ...ref, refusedOutcome: outcome.outcome });
      }
      const isConfirmed = verdict === "repeat" && outcome.confirm === true;
      if (verdict === "repeat" && !isConfirmed) events.emit("outcome.repeated", ref);
      events.emit("task.ended", {
        ...ref,
        outcome: isConfirmed ? "completed" : outcome.outcome,
        durationMs,
        willRunAgain: outcome.to === "pending" && !isConfirmed,
        error: isConfirmed ? undefined : outcome.error,
      });
      if (this.#finisher.held === this.#parts.settings.maxHeldOutcomes - 1) this.#claimer.wake();
    });
  }

  #onLooked(): void {
    this.#outages.over("watching claims");
    void this.#release(this.#hand.takePrefetched(performance.now() - GIVE_BACK_AFTER_MS));
  }

  async #release(claims: readonly ClaimId[]): Promise<void> {
    if (claims.length === 0) return;
    await releaseClaims(this.#parts.database, claims).catch((error: unknown) => {
      // Not known whether they were given back. Forgotten here, found again if they are still ours.
      this.#outages.noticed(error, "giving tasks back");
      this.#claimer.lookForOwn();
    });
    this.#hand.released(claims);
  }

  #abortRunning(): void {
    const running = [...this.#hand.running.values()];
    for (const { claimed, abort } of running) abort(new WorkerStoppingError(claimed.taskId));
    if (!this.#isInHurry) return;
    setTimeout(() => {
      for (const execution of running) execution.abandon();
    }, AT_ONCE_MS).unref();
  }

  #taskNamed(name: string): AnyTask {
    return this.#parts.tasks.find((task) => task.name === name) as AnyTask;
  }
}

function refOf(claimed: ClaimedTask): TaskRef {
  return { taskId: claimed.taskId, claimId: claimed.claimId, name: claimed.name, attempt: claimed.attempt };
}
