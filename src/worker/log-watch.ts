/** Tells of log lines that are dropped: once by an event and an alert, which stays open until lines are written again. */
import { hostname } from "node:os";
import type { Database } from "../database/database.ts";
import type { Events } from "../events.ts";
import type { LogHealth } from "../log-health.ts";
import { createService, type Service } from "../service.ts";
import { raiseAlert, resolveAlerts } from "../sql/alerts.ts";
import type { ReplicaId } from "../task/ids.ts";

const KIND = "log-dropped";
const LOOK_EVERY_MS = 1_000;
/** A disk that is nearly full takes one line and refuses the next. So the trouble is over only when no line has been dropped for so long. */
const OVER_AFTER_MS = 5_000;
/** Alerts that were raised long ago are deleted from the record. One that still holds is raised again before that. */
const RAISE_AGAIN_MS = 3_600_000;

export interface LogWatchParts {
  readonly database: Database;
  readonly events: Events;
  /** Those of this process. */
  readonly logs: readonly LogHealth[];
  /** Of a worker in this process, if there is one: when that is dead, a sweep resolves the alert. */
  readonly replica: () => ReplicaId | undefined;
}

/** A time in which log lines are dropped: from the first of them until every log is well and none has been dropped for a while. */
interface Trouble {
  /** How many had been dropped before. */
  readonly droppedBefore: number;
  /** Why the last ones were. */
  reason: string;
  droppedAtMs: number;
  raisedAtMs: number | undefined;
  raisedFor: ReplicaId | undefined;
}

export class LogWatch {
  readonly #parts: LogWatchParts;
  readonly #subject = `process ${process.pid} on ${hostname()}`;
  readonly #service: Service;
  /** How many lines each log had dropped at the last look. */
  readonly #dropped = new Map<LogHealth, number>();
  #trouble: Trouble | undefined;

  constructor(parts: LogWatchParts) {
    this.#parts = parts;
    // The next look tries again; that the database is away is told by others.
    const onError = () => {};
    this.#service = createService({ intervalMs: LOOK_EVERY_MS, runOnce: () => this.lookOnce(), onError });
  }

  start(): void {
    this.#service.start();
  }

  /** What becomes of the log of a process that has left is no trouble any more. */
  async stop(): Promise<void> {
    await this.#service.stop();
    if (this.#trouble?.raisedAtMs !== undefined) await this.#resolve().catch(() => {});
  }

  async lookOnce(nowMs = performance.now()): Promise<void> {
    const { logs } = this.#parts;
    const droppedBefore = this.#droppedSoFar;
    for (const log of logs) {
      const isDropping = log.dropped > (this.#dropped.get(log) ?? 0);
      this.#dropped.set(log, log.dropped);
      if (isDropping) this.#noteDropped(nowMs, log.reason, droppedBefore);
    }
    const trouble = this.#trouble;
    if (!trouble) return;
    const isOver = logs.every((log) => log.isWell) && nowMs - trouble.droppedAtMs >= OVER_AFTER_MS;
    if (isOver) await this.#end(trouble);
    else if (this.#isToBeRaised(trouble, nowMs)) await this.#raise(trouble, nowMs);
  }

  #isToBeRaised({ raisedAtMs, raisedFor }: Trouble, nowMs: number): boolean {
    if (raisedAtMs === undefined || nowMs - raisedAtMs >= RAISE_AGAIN_MS) return true;
    return raisedFor !== this.#parts.replica();
  }

  get #droppedSoFar(): number {
    return [...this.#dropped.values()].reduce((sum, lines) => sum + lines, 0);
  }

  #noteDropped(nowMs: number, reason: string, droppedBefore: number): void {
    if (this.#trouble) Object.assign(this.#trouble, { reason, droppedAtMs: nowMs });
    else {
      this.#trouble = { droppedBefore, reason, droppedAtMs: nowMs, raisedAtMs: undefined, raisedFor: undefined };
      this.#parts.events.emit("log.dropped", { reason });
    }
  }

  async #raise(trouble: Trouble, nowMs: number): Promise<void> {
    const message = `Log lines are being dropped by ${this.#subject}: ${trouble.reason}. Its work goes on.`;
    const replica = this.#parts.replica();
    const part = replica === undefined ? {} : { part: replica };
    // An alert that is open for the replica that this worker was before would be resolved by a sweep, and this one would not be raised beside it.
    const isForAnother = trouble.raisedAtMs !== undefined && trouble.raisedFor !== replica;
    if (isForAnother) await this.#resolve();
    const isNew = await raiseAlert(this.#parts.database, { kind: KIND, subject: this.#subject, message, ...part });
    // Somebody has locked the other one. The next look tries again.
    if (isForAnother && !isNew) return;
    Object.assign(trouble, { raisedAtMs: nowMs, raisedFor: replica });
  }

  async #end(trouble: Trouble): Promise<void> {
    if (trouble.raisedAtMs !== undefined) await this.#resolve();
    this.#trouble = undefined;
    this.#parts.events.emit("log.back", { dropped: this.#droppedSoFar - trouble.droppedBefore });
  }

  #resolve(): Promise<void> {
    return resolveAlerts(this.#parts.database, KIND, this.#subject);
  }
}
