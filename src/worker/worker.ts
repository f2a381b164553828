/**
 * A worker: the part of a replica that takes tasks, runs them and writes what came of it.
 *
 *   rounds ──claimed──▶ attempts ──▶ execution ──ending──▶ rounds ──outcomes, and what there is room for──▶ database
 *      ▲                  ▲             │ signal
 *   claimer          claim watch ───────┘  (cancelled? claim lost?)
 */
import type { Alerts } from "../alerts/alerts.ts";
import { workerServices } from "../background/cluster.ts";
import type { RecoverySettings } from "../config/recovery-options.ts";
import type { Database } from "../database/database.ts";
import type { Notices } from "../database/notices.ts";
import type { Events } from "../events.ts";
import { createPromptClock } from "../heart/clock.ts";
import { heartPlanOf } from "../heart/heart-plan.ts";
import type { Logger } from "../log.ts";
import type { LogHealth } from "../log-health.ts";
import { type HandlerScopes, openHandlerScopes } from "../runner/handler-scopes.ts";
import type { Runners } from "../runner/runners.ts";
import { ProcessServices } from "../services/process-services.ts";
import type { Service } from "../services/service.ts";
import type { AnyTask } from "../task/define-task.ts";
import { WorkerStoppingError } from "../task/errors.ts";
import type { ReplicaId } from "../task/ids.ts";
import { Attempts } from "./attempts.ts";
import { createClaimWatch } from "./claim-watch.ts";
import { ClaimableNames } from "./claimable-names.ts";
import { Claimer } from "./claimer.ts";
import { CompanyWatch } from "./company.ts";
import { type Demand, demandOf, NO_DEMAND } from "./demand.ts";
import { type EndedExecution, refOf } from "./ended-execution.ts";
import type { ExecutionParts } from "./execution-parts.ts";
import { GivingBack, giveBackUnknown } from "./give-back.ts";
import { Hand } from "./hand.ts";
import type { WorkSettings } from "./options.ts";
import { Outages } from "./outages.ts";
import { Pace } from "./pace.ts";
import { Received } from "./received.ts";
import type { Replica } from "./replica.ts";
import { Reports } from "./reports.ts";
import { reserveFor, secondRoundFrom } from "./round-plan.ts";
import { Rounds } from "./rounds.ts";
import { Slots } from "./slots.ts";
import { StandDown } from "./stand-down.ts";
import { watchThreats } from "./threats.ts";
import { atMost, Changes } from "./waiting.ts";
import { createWorkerRunners } from "./worker-runners.ts";

/** A task claimed ahead that has waited this long is given back: another worker may have a slot for it. */
const GIVE_BACK_AFTER_MS = 2_000;
/** Where there are tasks that must not wait in reserve, each look for one would find them in its way. */
const NO_RESERVE_FOR_MS = 1_000;
/** How long a stopping worker tries to write its last outcomes while the database is away. */
const LAST_WRITES_MS = 10_000;
/** The same, and how long handlers may take to stop, once somebody has said "now". */
const AT_ONCE_MS = 1_000;

export interface WorkerParts {
  readonly database: Database;
  readonly notices: Notices;
  readonly events: Events;
  readonly alerts: Alerts;
  readonly log: Logger;
  readonly tasks: readonly AnyTask[];
  readonly settings: WorkSettings;
  readonly resultLimitBytes: number;
  /** Where lines are counted that runners could not pass on. */
  readonly runnersHealth: LogHealth;
  readonly replica: Replica;
  readonly recovery: RecoverySettings;
}

export class Worker {
  readonly #parts: WorkerParts;
  readonly #outages: Outages;
  readonly #slots: Slots;
  readonly #received = new Received();
  readonly #hand: Hand;
  readonly #company = new CompanyWatch(() => this.#hand.executions().map(({ claimed }) => claimed.taskId));
  readonly #rounds: Rounds<EndedExecution>;
  readonly #reports: Reports;
  readonly #pace: Pace;
  readonly #givingBack: GivingBack;
  readonly #claimer: Claimer;
  readonly #runners: Runners;
  readonly #claimable: ClaimableNames;
  readonly #scopes: HandlerScopes;
  readonly #attempts: Attempts;
  readonly #largestBatch: number;
  readonly #mayReserve: boolean;
  readonly #watch: Service;
  /** What runs at intervals, for itself and for the cluster. */
  readonly background: ProcessServices;
  readonly #standDown: StandDown;
  readonly #changes = new Changes();
  /** It holds as many outcomes as it may, and asked for no tasks on that account. */
  #isFull = false;
  #reservesFromMs = 0;
  #isInHurry = false;
  #stopped: Promise<void> | undefined;
  #unsubscribe: () => void = () => {};

  constructor(parts: WorkerParts) {
    const { database, notices, events, alerts, settings, tasks, replica } = parts;
    this.#parts = parts;
    const threats = watchThreats({ replica, hand: () => this.#hand, isStopping: () => this.#isStopping });
    this.#scopes = openHandlerScopes(threats);
    this.#outages = new Outages(events);
    this.#runners = createWorkerRunners(parts, {
      onRoom: () => this.#onRoom(),
      flush: (claim) => this.#reports.flush(claim),
      company: this.#company,
    });
    this.#slots = new Slots(settings.concurrency, settings.queueLimits, (runIn) => this.#runners.limitOf(runIn));
    const claimable = new ClaimableNames(tasks, this.#slots);
    this.#claimable = claimable;
    const byName = new Map(tasks.map((task) => [task.name, task]));
    this.#hand = new Hand(byName, this.#slots, parts.replica.begun);
    this.#largestBatch = Math.max(...tasks.map((task) => task.batchSize));
    // What waits in reserve counts as running should this process die: only what may be repeated does.
    this.#mayReserve = settings.queueLimits.size === 0 && tasks.every((task) => task.settings.onCrash !== "fail");
    this.#rounds = new Rounds({
      ...{ database, alerts, outages: this.#outages },
      look: (beside) => this.#claimer.look(beside),
      isWaitedFor: ({ execution }) => execution.claimed.exclusiveKey !== null,
      secondFrom: secondRoundFrom(settings.concurrency),
      hasBacklog: () => this.#claimer.hasBacklog,
      isIdle: () => this.#hand.isEmpty,
      hasReserve: () => this.#hand.reserve.size * 2 > this.#reserve,
      onUnparked: () => this.#claimer.lookFromTheBeginning(),
      onStatuses: (ended, statuses) => this.#attempts.onStatuses(ended, statuses),
    });
    this.#givingBack = new GivingBack({ database, hand: this.#hand, outages: this.#outages });
    this.#pace = new Pace(settings.concurrency, performance.now());
    this.#reports = new Reports({ database, outages: this.#outages });
    const execution: ExecutionParts = {
      schema: database.schema,
      ...{ replica, events, log: parts.log },
      middleware: settings.middleware,
      resultLimitBytes: parts.resultLimitBytes,
      abortGraceMs: settings.abortGraceMs,
      scopes: this.#scopes,
      runners: this.#runners,
      reporting: this.#reports,
      deadlines: replica.deadlines,
      // A runner may say so after the stop itself has come.
      onOwnStop: () => this.#isStopping && void replica.drain(this.#hand.stoppers()),
    };
    const steadyNow = createPromptClock();
    this.#claimer = new Claimer({
      ...{ database, events, alerts, notices, replica, outages: this.#outages },
      get names() {
        return claimable.current();
      },
      queues: settings.queues,
      looksAlone: settings.queueLimits.size > 0,
      ...{ pollMs: settings.pollMs, steadyNow },
      demand: (asked, isAlone) => this.#demand(asked, isAlone),
      onMore: () => this.#rounds.tick(),
      known: () => this.#hand.claims(),
      onMet: () => {
        this.#reservesFromMs = performance.now() + NO_RESERVE_FOR_MS;
      },
      onClaimed: (claimed, asked) => this.#attempts.take(claimed, asked),
      onAdopted: (adopted, asked) => this.#attempts.adopt(adopted, asked),
      received: this.#received,
      onForgotten: (tasks, under) => this.#attempts.endForgotten(tasks, under),
    });
    this.#attempts = new Attempts({
      ...{ database, events, execution, tasks: byName, isStopping: () => this.#isStopping },
      mayBegin: (under) => !this.#standDown.isUnderWay && under === replica.id,
      ...{ beginWithinMs: heartPlanOf(parts.recovery).beginWithinMs, steadyNow },
      ...{
        slots: this.#slots,
        hand: this.#hand,
        rounds: this.#rounds,
        reports: this.#reports,
        pace: this.#pace,
        givingBack: this.#givingBack,
        outages: this.#outages,
        changes: this.#changes,
        received: this.#received,
        company: this.#company,
      },
      recovery: parts.recovery,
      onRoom: () => this.#onRoom(),
      onWritten: () => this.#onWritten(),
      onUnsure: () => this.#claimer.lookForOwn(),
    });
    const onError = (doing: string) => (error: unknown) => this.#outages.noticed(error, doing);
    this.#watch = createClaimWatch({
      database,
      replica,
      hand: this.#hand,
      isMoving: () => this.#standDown.isUnderWay,
      intervalMs: settings.pollMs,
      onLooked: () => this.#onLooked(),
      onUnknown: () => this.#claimer.lookForOwn(),
      onUnbegun: (claims) => void this.#attempts.giveBackReserved(claims),
      onLost: ({ claimed }) => events.emit("claim.lost", { ...refOf(claimed), refusedOutcome: undefined }),
      onError: onError("watching claims"),
    });
    const background = workerServices({
      ...{ database, events, replica, settings: parts.recovery, retention: settings.retention },
      isMoving: () => this.#standDown.isUnderWay,
      onError: (error, doing) => this.#outages.noticed(error, doing),
    });
    this.background = new ProcessServices([this.#watch, ...background]);
    replica.countInHand(() => this.#hand.size);
    this.#standDown = new StandDown({
      ...{ database, events, replica, hand: this.#hand, changes: this.#changes, received: this.#received },
      onBack: () => this.#claimer.lookForOwn(),
      onError: onError("coming back"),
    });
  }

  get replicaId(): ReplicaId {
    return this.#parts.replica.id;
  }

  get running(): number {
    return this.#hand.running;
  }

  start(): void {
    const { notices, events, tasks, settings } = this.#parts;
    this.#unsubscribe = notices.on("changed", (replicaId) => replicaId === this.replicaId && this.#watch.trigger());
    this.#runners.start();
    this.#claimer.start();
    this.background.start();
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
    if (!this.#isStopping) this.#scopes.noteOwnStop();
    this.#isInHurry ||= options.now === true;
    if (this.#isInHurry) this.#abortRunning();
    this.#stopped ??= this.#stopOnce(options.now ? 0 : this.#parts.settings.shutdownGraceMs);
    return this.#stopped;
  }

  async #stopOnce(graceMs: number): Promise<void> {
    const { events, replica, settings } = this.#parts;
    events.emit("worker.stopping", { replicaId: this.replicaId, running: this.running });
    const draining = replica.drain(this.#hand.stoppers());
    await this.#patiently(Promise.all([this.#claimer.stop(), draining, this.#attempts.giveBackReserved()]));
    await this.#patiently(this.#giveBackPrefetched());
    await this.#changes.until(() => this.#hand.isEmpty, graceMs);
    this.#abortRunning();
    await this.#changes.until(() => this.#hand.isEmpty, settings.abortGraceMs + 1_000);
    await this.#patiently(this.#runners.stop());
    const written = this.#reports.idle().then(() => this.#rounds.idle());
    await this.#patiently(Promise.all([written, this.#givingBack.idle()]));
    this.#reports.giveUp();
    this.#rounds.giveUp();
    this.#givingBack.giveUp();
    this.#unsubscribe();
    await this.#patiently(this.background.stop());
    await this.#patiently(this.#leave());
    this.#scopes.close();
    events.emit("worker.stopped", { replicaId: this.replicaId });
  }

  async #leave(): Promise<void> {
    const { database, replica } = this.#parts;
    const mine = { known: this.#hand.claims(), received: this.#received };
    await giveBackUnknown(database, replica.id, mine).catch(() => {});
    this.#standDown.stop();
    await replica.leave().catch(() => {});
  }

  /** What a stopping worker has to do with the database, which may be away: waited for, but not for ever. */
  #patiently(work: Promise<unknown>): Promise<void> {
    return atMost(this.#isInHurry ? AT_ONCE_MS : LAST_WRITES_MS, work);
  }

  /** Outcomes are written in batches, so there may be room for many tasks at once. */
  #onWritten(): void {
    if (!this.#isFull || this.#rounds.held >= this.#parts.settings.maxHeldOutcomes) return;
    this.#isFull = false;
    this.#claimer.wake();
  }

  #demand(asked: Demand, isAlone: boolean): Demand {
    const { settings } = this.#parts;
    this.#isFull = this.#rounds.held >= settings.maxHeldOutcomes;
    if (this.#isStopping || this.#standDown.isUnderWay || this.#isFull) return NO_DEMAND;
    return demandOf({
      settings: this.#hand.isOverstocked ? { ...settings, prefetch: 0 } : settings,
      slots: this.#slots,
      prefetched: this.#hand.prefetched,
      reserve: this.#reserve,
      reserved: this.#hand.reserve.size,
      asked,
      isAlone,
      largestBatch: this.#largestBatch,
      hasRunners: this.#runners.areUsed,
    });
  }

  /** How many may wait for a slot. */
  get #reserve(): number {
    const nowMs = performance.now();
    if (!this.#mayReserve || nowMs < this.#reservesFromMs) return 0;
    return reserveFor(this.#parts.settings.concurrency, this.#pace.perMs(nowMs));
  }

  get #isStopping(): boolean {
    return this.#stopped !== undefined;
  }

  #onRoom(): void {
    if (this.#claimable.haveGrown()) this.#claimer.lookFromTheBeginning();
    else this.#claimer.onRoom();
  }

  #onLooked(): void {
    this.#outages.over("watching claims");
    void this.#giveBackPrefetched(performance.now() - GIVE_BACK_AFTER_MS);
  }

  /** What was claimed ahead and has waited since before that time. */
  #giveBackPrefetched(beforeMs?: number): Promise<void> {
    const tasks = this.#hand.takePrefetched(beforeMs);
    return this.#givingBack.giveBack([{ tasks, under: this.replicaId }]);
  }

  #abortRunning(): void {
    const running = this.#hand.executions();
    for (const execution of running) execution.abort(new WorkerStoppingError(execution.claimed.taskId));
    if (!this.#isInHurry) return;
    this.#runners.hurry();
    setTimeout(() => {
      for (const execution of running) execution.abandon();
    }, AT_ONCE_MS).unref();
  }
}
