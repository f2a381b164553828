/** The composition root: what starts, in what order, and what stops. */
import { AlertOrders } from "./alerts/alert-orders.ts";
import { AlertWatch } from "./alerts/alert-watch.ts";
import { Alerts } from "./alerts/alerts.ts";
import { AlertDelivery } from "./alerts/delivery.ts";
import { ServicesWithoutWorker } from "./background/without-worker.ts";
import { isFunction } from "./config/checks.ts";
import type { Duration } from "./config/duration.ts";
import { checkOpen, type OpenOptions, type OpenSettings } from "./config/open-options.ts";
import { InvalidOptionsError, Problems } from "./config/problems.ts";
import type { Database } from "./database/database.ts";
import { ClosedError } from "./database/errors.ts";
import { assertSchemaFits, type MigrationProgress, type MigrationReport, migrate } from "./database/migrate.ts";
import { Notices } from "./database/notices.ts";
import { openDatabase } from "./database/open-database.ts";
import { readSchemaState, type SchemaState } from "./database/schema-state.ts";
import type { ExaminationProgress } from "./doctor/examine.ts";
import type { Finding } from "./doctor/finding.ts";
import { type EventListener, type EventName, Events } from "./events.ts";
import { Feed } from "./following/feed.ts";
import {
  type FollowOptions,
  followReplicas,
  followTask,
  type ReplicaUpdate,
  type TaskUpdate,
} from "./following/follow.ts";
import { neverThrowing } from "./given-logger.ts";
import { jsonLogger, type Logger } from "./log.ts";
import { EVENT_NAMES, logEvents, unknownEvent } from "./log-events.ts";
import { LogRecord } from "./log-health.ts";
import { outletOf } from "./outlet/outlets.ts";
import { Enqueuer } from "./queue/enqueue.ts";
import { checkMany, type EnqueueOptions } from "./queue/enqueue-options.ts";
import { QueueOrders } from "./queue/queue-orders.ts";
import { checkWait, Results } from "./queue/results.ts";
import { TaskOrders } from "./queue/task-orders.ts";
import type { ReplicaWithHeart } from "./recovery/heart-state.ts";
import { RecoveryOrders } from "./recovery/recovery-orders.ts";
import { isInsideRunner, WorkInsideRunnerError } from "./runner/inside-runner.ts";
import { reportOf, type ServiceReports } from "./services/process-services.ts";
import { readClock } from "./sql/clock.ts";
import { listRunners, type RunnerRow } from "./sql/runners.ts";
import { listTurns } from "./sql/turns.ts";
import type { Task } from "./task/define-task.ts";
import { toErrorRecord } from "./task/error-record.ts";
import type { ReplicaId, TaskId } from "./task/ids.ts";
import { LogWatch } from "./worker/log-watch.ts";
import { checkWork, type WorkOptions } from "./worker/options.ts";
import { Outages } from "./worker/outages.ts";
import { Replica } from "./worker/replica.ts";
import { leaveOnSignals } from "./worker/signals.ts";
import { atMost } from "./worker/waiting.ts";
import { Worker } from "./worker/worker.ts";

/** How long a graceful end waits for those who wait for somebody else's unique key or id. */
const KEY_PATIENCE_MS = 5_000;

/** How long it waits for its alerts to be written, should the database be away. */
const LAST_ALERTS_MS = 1_000;
/** How long it waits for a look of those that follow something, should the database be away. */
const LAST_LOOK_MS = 1_000;

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
  readonly #events: Events;
  readonly #log: Logger;
  /** Of a logger that was given, and of what this process's runners could not pass on to it. */
  readonly #loggerHealth = new LogRecord();
  readonly #runnersHealth = new LogRecord();
  readonly #alerts: Alerts;
  readonly #alertWatch: AlertWatch;
  readonly #deliveries: readonly AlertDelivery[];
  readonly #logWatch: LogWatch;
  readonly #notices: Notices;
  readonly #enqueuer: Enqueuer;
  readonly #results: Results;
  readonly #feed: Feed;
  readonly #workers = new Set<Worker>();
  readonly #services: ServicesWithoutWorker | undefined;
  #closed: Promise<void> | undefined;

  private constructor(settings: OpenSettings, database: Database) {
    // JavaScript knows nothing of "private".
    if (!database) throw new InvalidOptionsError("new Everbeat()", [OPEN_INSTEAD]);
    this.#settings = settings;
    this.database = database;
    this.#log =
      typeof settings.log === "string"
        ? jsonLogger({ level: settings.log, write: (line) => void outletOf(process.stderr).write(line) })
        : neverThrowing(settings.log, this.#loggerHealth);
    this.#events = new Events((error, name) =>
      this.#log.error({ event: name, error: toErrorRecord(error, "ERROR", "The listener") }, "an event listener threw"),
    );
    logEvents(this.#events, this.#log);
    const streams = [outletOf(process.stdout).health, outletOf(process.stderr).health];
    const logs = [this.#loggerHealth, this.#runnersHealth, ...streams];
    const replica = () => [...this.#workers][0]?.replicaId;
    const refusals = new Outages(this.#events);
    const inTime = database.withReplyWithin(settings.replyTimeoutMs);
    this.#alerts = new Alerts({ database: inTime, onRefused: (error) => refusals.noticed(error, "writing alerts") });
    this.#logWatch = new LogWatch({ alerts: this.#alerts, events: this.#events, logs, replica });
    this.#notices = new Notices(database);
    const telling = { database: inTime, notices: this.#notices, events: this.#events };
    this.#alertWatch = new AlertWatch(telling);
    this.#deliveries = settings.alertChannels.map((channel) => new AlertDelivery({ ...telling, channel }));
    this.#enqueuer = new Enqueuer(database, { inputLimitBytes: settings.maxJsonBytes });
    this.#results = new Results(inTime, this.#notices);
    this.#feed = new Feed(inTime, this.#notices);
    const { cancelGraceMs, maxJsonBytes: inputLimitBytes } = settings;
    this.tasks = new TaskOrders(database, { cancelGraceMs, inputLimitBytes });
    this.queues = new QueueOrders(database);
    this.alerts = new AlertOrders(database);
    this.recovery = new RecoveryOrders(database, this.#events, settings.recovery);
    this.#services = settings.runsServices ? this.#createServices() : undefined;
    if (this.#services) for (const one of [this.#services, this.#logWatch]) one.start();
  }

  #createServices(): ServicesWithoutWorker {
    return new ServicesWithoutWorker({
      outages: new Outages(this.#events),
      awaitsSchema: this.#settings.migrate === "later",
      database: this.database.withReplyWithin(this.#settings.replyTimeoutMs),
      ...{ events: this.#events, settings: this.#settings.recovery },
    });
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
      for (const delivery of everbeat.#deliveries) await delivery.start();
    } catch (error) {
      await everbeat.close();
      throw error;
    }
    return everbeat;
  }

  /** Brings the schema up to date. `onProgress` is called before each step. */
  async migrate(options: { onProgress?: MigrationProgress | undefined } = {}): Promise<MigrationReport> {
    const report = await migrate(this.database, options);
    await Promise.all(this.#deliveries.map((delivery) => delivery.noteChannel()));
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
    return (await this.#enqueuer.enqueue({ task, input, options })) as TaskHandle<Output>;
  }

  /** All or nothing. The ids come back in the order of the inputs. */
  async enqueueMany<Input, Output>(
    task: Task<Input, Output>,
    inputs: readonly NoInfer<Input>[],
    how: ManyOptions<Input> = {},
  ): Promise<TaskHandle<Output>[]> {
    const { options, tx } = checkMany(inputs, how);
    return (await this.#enqueuer.enqueueMany({ task, inputs, options, tx })) as TaskHandle<Output>[];
  }

  /** Waits until the task has ended. Throws a TaskEndedError unless it completed, a ResultTimeoutError if it takes too long. */
  async result<Output = unknown>(
    id: TaskHandle<Output> | string,
    options?: { timeout?: Duration | undefined; signal?: AbortSignal | undefined },
  ): Promise<Output> {
    return (await this.#results.wait(id as TaskId, checkWait(id, options))) as Output;
  }

  /**
   * What happens to a task, wherever it runs, until it has ended: first how it stands, last its end. Nothing is asked of the database before the
   * first update is read, nor after the loop is left.
   */
  follow(id: TaskHandle<unknown> | string, options: FollowOptions = {}): AsyncIterableIterator<TaskUpdate, undefined> {
    return followTask(this.#feed, id, options);
  }

  /** What happens to one replica, or to all of them: joined, stale, draining, offline, dead, rejoined. It has no end. */
  followReplicas(
    options: FollowOptions & { replicaId?: ReplicaId | undefined } = {},
  ): AsyncIterableIterator<ReplicaUpdate, undefined> {
    return followReplicas(this.#feed, options);
  }

  /** Starts a worker in this process and returns it, running. */
  async work(tasks: readonly Task<never, unknown>[], options?: WorkOptions): Promise<Worker> {
    if (isInsideRunner()) throw new WorkInsideRunnerError();
    const settings = checkWork(tasks, options);
    const { recovery, replyTimeoutMs, migrate: schema } = this.#settings;
    // Nobody has looked yet.
    if (schema === "later") await assertSchemaFits(this.database);
    const database = this.database.withReplyWithin(replyTimeoutMs);
    const { queues, abortGraceMs } = settings;
    const replica = new Replica({ database, settings: recovery, tasks, queues, abortGraceMs });
    await replica.join(this.#notices);
    const worker = new Worker({
      database,
      notices: this.#notices,
      events: this.#events,
      alerts: this.#alerts,
      log: this.#log,
      tasks,
      settings,
      resultLimitBytes: this.#settings.maxJsonBytes,
      runnersHealth: this.#runnersHealth,
      ...{ replica, recovery },
    });
    this.#workers.add(worker);
    worker.start();
    this.#logWatch.start();
    this.#alertWatch.start();
    const signals = settings.handleSignals
      ? leaveOnSignals({ gracefully: () => this.close(), now: () => this.close({ now: true }) })
      : undefined;
    const unsubscribe = this.#events.on("worker.stopped", ({ replicaId }) => {
      if (replicaId !== worker.replicaId) return;
      unsubscribe();
      signals?.close();
      this.#workers.delete(worker);
    });
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
    const ofWorkers = [...this.#workers].flatMap(({ background }) => background.reports());
    const own = [this.#logWatch, this.#alerts, this.#alertWatch, ...this.#deliveries].map(reportOf);
    const ofCluster = this.#services?.services.map(reportOf) ?? [];
    return { cluster: await listTurns(this.database), process: [...ofWorkers, ...own, ...ofCluster] };
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
    const unsubscribe = this.#events.on(name, listener);
    this.#alertWatch.start();
    return unsubscribe;
  }

  /**
   * Stops the workers gracefully, answers the calls that are under way, then leaves the database. A call of `enqueue` that waits for a unique key
   * or an id, which somebody else's transaction holds, is waited with for a few seconds, and then fails with a ClosedError. `now`: aborts running
   * tasks at once, and waits for nobody's key.
   */
  close(options: { now?: boolean } = {}): Promise<void> {
    if (options.now) {
      for (const worker of this.#workers) void worker.stop({ now: true });
      this.#enqueuer.giveUpWaiting();
    }
    this.#closed ??= this.#closeOnce(options);
    return this.#closed;
  }

  async #closeOnce(options: { now?: boolean }): Promise<void> {
    await Promise.all([...this.#workers].map((worker) => worker.stop(options)));
    await this.#services?.stop();
    await atMost(LAST_LOOK_MS, this.#feed.stop());
    await this.#logWatch.stop();
    await atMost(LAST_ALERTS_MS, this.#alerts.written());
    this.#alerts.stop();
    await atMost(LAST_ALERTS_MS, Promise.all([this.#alertWatch, ...this.#deliveries].map((one) => one.stop())));
    const answered = this.#enqueuer.idle();
    await atMost(KEY_PATIENCE_MS, answered);
    this.#enqueuer.giveUpWaiting();
    await Promise.all([answered, this.#results.idle()]);
    await this.#notices.stop();
    await this.database.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
