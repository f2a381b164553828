/** What an open Everbeat is made of: what starts, in what order, and what stops. What can be asked of it is in everbeat.ts. */
import { AlertWatch } from "./alerts/alert-watch.ts";
import { Alerts } from "./alerts/alerts.ts";
import { AlertDelivery } from "./alerts/delivery.ts";
import { ServicesWithoutWorker } from "./background/without-worker.ts";
import type { OpenSettings } from "./config/open-options.ts";
import type { Database } from "./database/database.ts";
import { Notices } from "./database/notices.ts";
import { Events } from "./events.ts";
import { Feed } from "./following/feed.ts";
import { neverThrowing } from "./given-logger.ts";
import { jsonLogger, type Logger } from "./log.ts";
import { logEvents } from "./log-events.ts";
import { LogHealth } from "./log-health.ts";
import { outletOf } from "./outlet/outlets.ts";
import { Enqueuer } from "./queue/enqueue.ts";
import { Results } from "./queue/results.ts";
import { type ProcessServiceReport, reportOf } from "./services/process-services.ts";
import type { Task } from "./task/define-task.ts";
import { toErrorRecord } from "./task/error-record.ts";
import { LogWatch } from "./worker/log-watch.ts";
import type { WorkSettings } from "./worker/options.ts";
import { Outages } from "./worker/outages.ts";
import { Replica } from "./worker/replica.ts";
import { atMost } from "./worker/waiting.ts";
import { Worker } from "./worker/worker.ts";

/** How long a graceful end waits for those who wait for somebody else's unique key or id. */
const KEY_PATIENCE_MS = 5_000;
/** How long it waits for its alerts to be written, should the database be away. */
const LAST_ALERTS_MS = 1_000;
/** How long it waits for a look of those that follow something, should the database be away. */
const LAST_LOOK_MS = 1_000;

export class Composition {
  readonly events: Events;
  readonly enqueuer: Enqueuer;
  readonly results: Results;
  readonly feed: Feed;
  /** Tells listeners of alerts. To be started whenever somebody may have begun to listen. */
  readonly alertWatch: AlertWatch;
  /** Tells of dropped log lines. To be started with the first thing that the process does besides asking. */
  readonly logWatch: LogWatch;
  readonly #settings: OpenSettings;
  readonly #database: Database;
  /** With an end to each statement: who waits for the reply of one that was lost asks again. */
  readonly #inTime: Database;
  readonly #log: Logger;
  /** Of a logger that was given, and of what this process's runners could not pass on to it. */
  readonly #loggerHealth = new LogHealth();
  readonly #runnersHealth = new LogHealth();
  readonly #alerts: Alerts;
  readonly #deliveries: readonly AlertDelivery[];
  readonly #notices: Notices;
  readonly #workers = new Set<Worker>();
  readonly #services: ServicesWithoutWorker | undefined;

  constructor(settings: OpenSettings, database: Database) {
    this.#settings = settings;
    this.#database = database;
    this.#inTime = database.withReplyWithin(settings.replyTimeoutMs);
    this.#log =
      typeof settings.log === "string"
        ? jsonLogger({ level: settings.log, write: (line) => void outletOf(process.stderr).write(line) })
        : neverThrowing(settings.log, this.#loggerHealth);
    this.events = new Events((error, name) =>
      this.#log.error({ event: name, error: toErrorRecord(error, "ERROR", "The listener") }, "an event listener threw"),
    );
    logEvents(this.events, this.#log);
    const streams = [outletOf(process.stdout).health, outletOf(process.stderr).health];
    const logs = [this.#loggerHealth, this.#runnersHealth, ...streams];
    const replica = () => [...this.#workers][0]?.replicaId;
    const refusals = new Outages(this.events);
    this.#alerts = new Alerts({
      database: this.#inTime,
      onRefused: (error) => refusals.noticed(error, "writing alerts"),
    });
    this.logWatch = new LogWatch({ alerts: this.#alerts, events: this.events, logs, replica });
    this.#notices = new Notices(database);
    const telling = { database: this.#inTime, notices: this.#notices, events: this.events };
    this.alertWatch = new AlertWatch(telling);
    this.#deliveries = settings.alertChannels.map((channel) => new AlertDelivery({ ...telling, channel }));
    this.enqueuer = new Enqueuer(database, { inputLimitBytes: settings.maxJsonBytes });
    this.results = new Results(this.#inTime, this.#notices);
    this.feed = new Feed(this.#inTime, this.#notices);
    this.#services = settings.runsServices ? this.#createServices() : undefined;
    if (this.#services) for (const one of [this.#services, this.logWatch]) one.start();
  }

  #createServices(): ServicesWithoutWorker {
    return new ServicesWithoutWorker({
      outages: new Outages(this.events),
      awaitsSchema: this.#settings.migrate === "later",
      ...{ database: this.#inTime, events: this.events, settings: this.#settings.recovery },
    });
  }

  async startDeliveries(): Promise<void> {
    for (const delivery of this.#deliveries) await delivery.start();
  }

  /** From now on there is a place where they can be on record. */
  async noteChannels(): Promise<void> {
    await Promise.all(this.#deliveries.map((delivery) => delivery.noteChannel()));
  }

  async startWorker(tasks: readonly Task<never, unknown>[], settings: WorkSettings): Promise<Worker> {
    const { recovery, maxJsonBytes: resultLimitBytes } = this.#settings;
    const database = this.#inTime;
    const { queues, abortGraceMs } = settings;
    const replica = new Replica({ database, settings: recovery, tasks, queues, abortGraceMs });
    await replica.join(this.#notices);
    const worker = new Worker({
      ...{ database, notices: this.#notices, events: this.events, alerts: this.#alerts, log: this.#log },
      ...{ tasks, settings, resultLimitBytes, runnersHealth: this.#runnersHealth, replica, recovery },
    });
    this.#workers.add(worker);
    worker.start();
    this.logWatch.start();
    this.alertWatch.start();
    const unsubscribe = this.events.on("worker.stopped", ({ replicaId }) => {
      if (replicaId !== worker.replicaId) return;
      unsubscribe();
      this.#workers.delete(worker);
    });
    return worker;
  }

  /** What runs in this process, and how its last runs went. */
  reports(): ProcessServiceReport[] {
    const ofWorkers = [...this.#workers].flatMap(({ background }) => background.reports());
    const own = [this.logWatch, this.#alerts, this.alertWatch, ...this.#deliveries].map(reportOf);
    const ofCluster = this.#services?.services.map(reportOf) ?? [];
    return [...ofWorkers, ...own, ...ofCluster];
  }

  /** Running tasks are aborted, and nobody's key is waited for. */
  hurry(): void {
    for (const worker of this.#workers) void worker.stop({ now: true });
    this.enqueuer.giveUpWaiting();
  }

  async stop(options: { now?: boolean }): Promise<void> {
    await Promise.all([...this.#workers].map((worker) => worker.stop(options)));
    await this.#services?.stop();
    await atMost(LAST_LOOK_MS, this.feed.stop());
    await this.logWatch.stop();
    await atMost(LAST_ALERTS_MS, this.#alerts.written());
    this.#alerts.stop();
    await atMost(LAST_ALERTS_MS, Promise.all([this.alertWatch, ...this.#deliveries].map((one) => one.stop())));
    const answered = this.enqueuer.idle();
    await atMost(KEY_PATIENCE_MS, answered);
    this.enqueuer.giveUpWaiting();
    await Promise.all([answered, this.results.idle()]);
    await this.#notices.stop();
    await this.#database.close();
  }
}
