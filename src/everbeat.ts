/**
 * What a program can ask. Its parts are composed in composition.ts.
 *
 * What belongs to a subject (tasks, queues, alerts) is a class of orders of its own, and a property here: `everbeat.tasks.cancel()`. Here itself is only
 * what a program does all the time: enqueue, wait for a result, follow, work, listen.
 */
import { AlertOrders } from "./alerts/alert-orders.ts";
import { Composition } from "./composition.ts";
import { isFunction } from "./config/checks.ts";
import type { Duration } from "./config/duration.ts";
import { checkOpen, type OpenOptions, type OpenSettings } from "./config/open-options.ts";
import { InvalidOptionsError, Problems } from "./config/problems.ts";
import type { Database } from "./database/database.ts";
import { ClosedError } from "./database/errors.ts";
import { assertSchemaFits, type MigrationProgress, type MigrationReport, migrate } from "./database/migrate.ts";
import { openDatabase } from "./database/open-database.ts";
import { readSchemaState, type SchemaState } from "./database/schema-state.ts";
import type { ExaminationProgress } from "./doctor/examine.ts";
import type { Finding } from "./doctor/finding.ts";
import type { EventListener, EventName } from "./events.ts";
import {
  type FollowOptions,
  followReplicas,
  followTask,
  type ReplicaUpdate,
  type TaskUpdate,
} from "./following/follow.ts";
import { EVENT_NAMES, unknownEvent } from "./log-events.ts";
import { checkMany, type EnqueueOptions } from "./queue/enqueue-options.ts";
import { QueueOrders } from "./queue/queue-orders.ts";
import { checkWait } from "./queue/results.ts";
import { TaskOrders } from "./queue/task-orders.ts";
import type { ReplicaWithHeart } from "./recovery/heart-state.ts";
import { RecoveryOrders } from "./recovery/recovery-orders.ts";
import { isInsideRunner, WorkInsideRunnerError } from "./runner/inside-runner.ts";
import type { ServiceReports } from "./services/process-services.ts";
import { readClock } from "./sql/clock.ts";
import { listRunners, type RunnerRow } from "./sql/runners.ts";
import { listTurns } from "./sql/turns.ts";
import type { Task } from "./task/define-task.ts";
import type { ReplicaId, TaskId } from "./task/ids.ts";
import { checkWork, type WorkOptions } from "./worker/options.ts";
import { leaveOnSignals } from "./worker/signals.ts";
import type { Worker } from "./worker/worker.ts";

/** A task's id that remembers what the task returns, so that `result` has its type. */
export type TaskHandle<Output> = TaskId & { readonly __output?: Output };

/** A task that takes nothing can be enqueued with nothing. */
export type EnqueueArguments<Input> = undefined extends Input
  ? [input?: Input, options?: EnqueueOptions]
  : [input: Input, options?: EnqueueOptions];

export interface ManyOptions<Input> {
  /** Options for each input, or the same for all. */
  options?: Omit<EnqueueOptions, "tx"> | ((input: Input, index: number) => Omit<EnqueueOptions, "tx">) | undefined;
  tx?: EnqueueOptions["tx"] | undefined;
}

const OPEN_INSTEAD = "it is made by Everbeat.open: const everbeat = await Everbeat.open({ database })";

export class Everbeat implements AsyncDisposable {
  /** Cancel, retry, list and show tasks; enqueue one by its name. */
  readonly tasks: TaskOrders;
  /** Pause, resume, limit and list queues. */
  readonly queues: QueueOrders;
  /** What is wrong, and what has been. */
  readonly alerts: AlertOrders;
  /** Find and recover stale tasks by hand; machines, alerts, the reapers' state. */
  readonly recovery: RecoveryOrders;
  readonly database: Database;
  readonly #settings: OpenSettings;
  readonly #parts: Composition;
  #closed: Promise<void> | undefined;

  private constructor(settings: OpenSettings, database: Database) {
    // JavaScript knows nothing of "private".
    if (!database) throw new InvalidOptionsError("new Everbeat()", [OPEN_INSTEAD]);
    this.#settings = settings;
    this.database = database;
    this.#parts = new Composition(settings, database);
    const { cancelGraceMs, maxJsonBytes: inputLimitBytes } = settings;
    this.tasks = new TaskOrders(database, { cancelGraceMs, inputLimitBytes });
    this.queues = new QueueOrders(database);
    this.alerts = new AlertOrders(database);
    this.recovery = new RecoveryOrders(database, this.#parts.events, settings.recovery);
  }

  /** Connects, and brings the schema up to date unless `migrate` says otherwise. */
  static async open(options?: OpenOptions): Promise<Everbeat> {
    const settings = checkOpen(options);
    const database = await openDatabase(settings);
    try {
      // What has been migrated fits.
      if (settings.migrate === true) await migrate(database);
      else if (settings.migrate === false) await assertSchemaFits(database);
    } catch (error) {
      await database.close();
      throw error;
    }
    const everbeat = new Everbeat(settings, database);
    try {
      await everbeat.#parts.startDeliveries();
    } catch (error) {
      await everbeat.close();
      throw error;
    }
    return everbeat;
  }

  /** Brings the schema up to date. `onProgress` is called before each step. */
  async migrate(options: { onProgress?: MigrationProgress | undefined } = {}): Promise<MigrationReport> {
    const report = await migrate(this.database, options);
    await this.#parts.noteChannels();
    return report;
  }

  /** What the schema is at, and what is to be done before this version can work with it. */
  schema(): Promise<SchemaState> {
    return readSchemaState(this.database);
  }

  /** What is wrong with the database and with the fleet in it, and what to do about it. */
  async doctor(options: { onProgress?: ExaminationProgress | undefined } = {}): Promise<readonly Finding[]> {
    if (this.#closed) throw new ClosedError();
    // A worker does not load what only those need who ask.
    const { examineDatabase } = await import("./doctor/examine.ts");
    return examineDatabase(this.database, options.onProgress);
  }

  async enqueue<Input, Output>(
    task: Task<Input, Output>,
    ...[input, options]: EnqueueArguments<Input>
  ): Promise<TaskHandle<Output>> {
    this.#parts.logWatch.start();
    return (await this.#parts.enqueuer.enqueue({ task, input, options })) as TaskHandle<Output>;
  }

  /** All or nothing. The ids come back in the order of the inputs. */
  async enqueueMany<Input, Output>(
    task: Task<Input, Output>,
    inputs: readonly NoInfer<Input>[],
    how: ManyOptions<Input> = {},
  ): Promise<TaskHandle<Output>[]> {
    this.#parts.logWatch.start();
    const { options, tx } = checkMany(inputs, how);
    return (await this.#parts.enqueuer.enqueueMany({ task, inputs, options, tx })) as TaskHandle<Output>[];
  }

  /** Waits until the task has ended. Throws a TaskEndedError unless it completed, a ResultTimeoutError if it takes too long. */
  async result<Output = unknown>(
    id: TaskHandle<Output> | string,
    options?: { timeout?: Duration | undefined; signal?: AbortSignal | undefined },
  ): Promise<Output> {
    return (await this.#parts.results.wait(id as TaskId, checkWait(id, options))) as Output;
  }

  /**
   * What happens to a task, wherever it runs, until it has ended: first how it stands, last its end. Nothing is asked of the database before the
   * first update is read, nor after the loop is left.
   */
  follow(id: TaskHandle<unknown> | string, options: FollowOptions = {}): AsyncIterableIterator<TaskUpdate, undefined> {
    return followTask(this.#parts.feed, id, options);
  }

  /** What happens to one replica, or to all of them: joined, stale, draining, offline, dead, rejoined. It has no end. */
  followReplicas(
    options: FollowOptions & { replicaId?: ReplicaId | undefined } = {},
  ): AsyncIterableIterator<ReplicaUpdate, undefined> {
    return followReplicas(this.#parts.feed, options);
  }

  /** Starts a worker in this process and returns it, running. */
  async work(tasks: readonly Task<never, unknown>[], options?: WorkOptions): Promise<Worker> {
    if (isInsideRunner()) throw new WorkInsideRunnerError();
    const settings = checkWork(tasks, options);
    // Nobody has looked yet.
    if (this.#settings.migrate === "later") await assertSchemaFits(this.database);
    const worker = await this.#parts.startWorker(tasks, settings);
    if (settings.handleSignals) {
      const signals = leaveOnSignals({ gracefully: () => this.close(), now: () => this.close({ now: true }) });
      const unsubscribe = this.#parts.events.on("worker.stopped", ({ replicaId }) => {
        if (replicaId !== worker.replicaId) return;
        unsubscribe();
        signals.close();
      });
    }
    return worker;
  }

  /** The database's clock, which stamps everything. */
  now(): Promise<Date> {
    return readClock(this.database);
  }

  /** The threads and processes that replicas run tasks in, and those that have ended of late. */
  runners(): Promise<readonly RunnerRow[]> {
    return listRunners(this.database);
  }

  /** What runs in the background: once in the cluster, by whom and how the last run went; and in this process. */
  async services(): Promise<ServiceReports> {
    return { cluster: await listTurns(this.database), process: this.#parts.reports() };
  }

  replicas(): Promise<readonly ReplicaWithHeart[]> {
    return this.recovery.replicas();
  }

  /** Returns the function that ends the subscription. */
  on<N extends EventName>(name: N, listener: EventListener<N>): () => void {
    const problems = new Problems();
    if (!EVENT_NAMES.includes(name)) problems.add(String(name), unknownEvent(String(name)));
    isFunction(listener, "the listener", problems);
    problems.throwIfAny("The subscription");
    const unsubscribe = this.#parts.events.on(name, listener);
    this.#parts.alertWatch.start();
    return unsubscribe;
  }

  /**
   * Stops the workers gracefully, answers the calls that are under way, then leaves the database. A call of `enqueue` that waits for a unique key
   * or an id, which somebody else's transaction holds, is waited with for a few seconds, and then fails with a ClosedError. `now`: aborts running
   * tasks at once, and waits for nobody's key.
   */
  close(options: { now?: boolean } = {}): Promise<void> {
    if (options.now) this.#parts.hurry();
    this.#closed ??= this.#parts.stop(options);
    return this.#closed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
