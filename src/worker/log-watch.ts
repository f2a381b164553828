/** Tells of log lines that are dropped: once by an event and an alert, which stays open until lines are written again. */
import { hostname } from "node:os";
import type { Alerts } from "../alerts/alerts.ts";
import type { Events } from "../events.ts";
import type { LogHealth } from "../log-health.ts";
import { SERVICES } from "../services/list.ts";
import { createService, type Service, type ServiceRun } from "../services/service.ts";
import type { ReplicaId } from "../task/ids.ts";

const KIND = "log-dropped";
/** A disk that is nearly full takes one line and refuses the next. So the trouble is over only when no line has been dropped for so long. */
const OVER_AFTER_MS = 5_000;

export interface LogWatchParts {
  readonly alerts: Alerts;
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
  /** The worker that its alert names. */
  raisedFor: ReplicaId | undefined;
}

/** Which of those that have had trouble comes next: kept for the module, because the process is what they have in common. */
let nextPlace = 1;

export class LogWatch {
  readonly name = "log watch";
  readonly #parts: LogWatchParts;
  #place: number | undefined;
  readonly #service: Service;
  /** How many lines each log had dropped at the last look. */
  readonly #dropped = new Map<LogHealth, number>();
  #trouble: Trouble | undefined;

  constructor(parts: LogWatchParts) {
    this.#parts = parts;
    this.#service = createService({
      ...{ name: "log watch", intervalMs: SERVICES["log watch"].everyMs, onError: () => {} },
      keepsProcess: false,
      runOnce: async () => this.lookOnce(),
    });
  }

  get lastRun(): ServiceRun | undefined {
    return this.#service.lastRun;
  }

  start(): void {
    this.#service.start();
  }

  /** What becomes of the log of a process that has left is no trouble any more. */
  async stop(): Promise<void> {
    await this.#service.stop();
    if (this.#trouble) this.#parts.alerts.resolve(KIND, this.#subject);
  }

  /** Of its alert. Each Everbeat of a process has logs and troubles of its own, so each has an alert of its own. */
  get #subject(): string {
    this.#place ??= nextPlace++;
    return `process ${process.pid} on ${hostname()}${this.#place === 1 ? "" : ` (its Everbeat ${this.#place})`}`;
  }

  lookOnce(nowMs = performance.now()): void {
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
    if (isOver) this.#end(trouble);
    else this.#raise(trouble);
  }

  get #droppedSoFar(): number {
    return [...this.#dropped.values()].reduce((sum, lines) => sum + lines, 0);
  }

  #noteDropped(nowMs: number, reason: string, droppedBefore: number): void {
    if (this.#trouble) Object.assign(this.#trouble, { reason, droppedAtMs: nowMs });
    else {
      this.#trouble = { droppedBefore, reason, droppedAtMs: nowMs, raisedFor: undefined };
      this.#parts.events.emit("log.dropped", { reason });
    }
  }

  /** Once, and again when the worker came back under another id: a sweep would resolve an alert that names the one before. */
  #raise(trouble: Trouble): void {
    const { alerts, replica } = this.#parts;
    const part = replica();
    if (alerts.isOpen(KIND, this.#subject) && trouble.raisedFor === part) return;
    trouble.raisedFor = part;
    const message = `Log lines are being dropped by ${this.#subject}: ${trouble.reason}. Its work goes on.`;
    void alerts.raise({ kind: KIND, subject: this.#subject, message, ...(part === undefined ? {} : { part }) });
  }

  #end(trouble: Trouble): void {
    const { alerts, events } = this.#parts;
    alerts.resolve(KIND, this.#subject);
    this.#trouble = undefined;
    events.emit("log.back", { dropped: this.#droppedSoFar - trouble.droppedBefore });
  }
}
