/**
 * Tells of runs that do not end, though they were asked to: by an alert, which this process keeps open until the run is over. Others run the service
 * meanwhile. This process does not: a second run of it would get stuck as the first one did.
 */
import { hostname } from "node:os";
import { formatDuration } from "../config/duration.ts";
import type { Database } from "../database/database.ts";
import { raiseAlert, resolveAlert } from "../sql/alerts.ts";
import type { ReplicaId } from "../task/ids.ts";

export interface StuckRunsParts {
  readonly database: Database;
  readonly taker: { readonly id: ReplicaId };
  readonly longestMs: number;
  readonly onError: (error: unknown, doing: string) => void;
}

const KIND = "service-stuck";
const DOING = "telling of a run that does not end";
const SAID_AGAIN_MS = 60_000;

export class StuckRuns {
  readonly #parts: StuckRunsParts;
  /** By service: when it was said last. */
  readonly #saidAtMs = new Map<string, number>();
  /** What is said last is written last. */
  #writing: Promise<void> = Promise.resolve();

  constructor(parts: StuckRunsParts) {
    this.#parts = parts;
  }

  /** Nobody waits for it: it must not hold up the other services. */
  met(service: string, runsForMs: number): void {
    const { database, taker, longestMs } = this.#parts;
    if (performance.now() - (this.#saidAtMs.get(service) ?? Number.NEGATIVE_INFINITY) < SAID_AGAIN_MS) return;
    this.#saidAtMs.set(service, performance.now());
    const inTime = formatDuration(longestMs);
    const message = `A run of the service "${service}" has not ended in process ${process.pid} on ${hostname()}, which asked it to end after ${inTime}. Other processes run the service. This one does not until it is started again.`;
    const details = { service, replicaId: taker.id, runsForMs: Math.round(runsForMs) };
    this.#write(
      async () => void (await raiseAlert(database, { kind: KIND, subject: subjectOf(service), message, details })),
    );
  }

  ended(service: string): void {
    if (this.#saidAtMs.delete(service)) this.#write(() => resolveAlert(this.#parts.database, KIND, subjectOf(service)));
  }

  /** One that cannot be written is said again in a minute, or resolved by a sweep. */
  #write(word: () => Promise<void>): void {
    this.#writing = this.#writing.then(word).catch((error: unknown) => this.#parts.onError(error, DOING));
  }
}

function subjectOf(service: string): string {
  return `${service} in process ${process.pid} on ${hostname()}`;
}
