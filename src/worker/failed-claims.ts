/**
 * One row that cannot be claimed makes the whole claim fail. It is taken out of the way, so that it does not keep a worker from all others.
 * Where no row is to blame, all of them stay, and an alert is open until a claim from their queue goes through.
 */
import type { Alerts } from "../alerts/alerts.ts";
import type { Database } from "../database/database.ts";
import { isAboutTheValues, isTransient } from "../database/transient.ts";
import type { Events } from "../events.ts";
import type { ClaimedTask, ClaimRequest } from "../sql/claims.ts";
import { readQueuesLeft, type SetAside, setAsideBad } from "../sql/set-aside.ts";
import type { Outages } from "./outages.ts";

const KIND = "claims-failing";
/** A claim that took nothing proves nothing: the tasks may be behind where it began. While claims fail, one does so more often than this. */
const OVER_AFTER_MS = 30_000;

interface FailedClaimsParts {
  readonly database: Database;
  readonly alerts: Alerts;
  readonly events: Events;
  readonly outages: Outages;
  readonly queues: readonly string[] | undefined;
}

export class FailedClaims {
  readonly #parts: FailedClaimsParts;
  #last: ClaimRequest | undefined;
  /** Queues from which nothing can be claimed, and when that was seen last. */
  readonly #failing = new Map<string, number>();
  /**
   * An alert may be open that this worker does not know of, and whose own worker was killed. So it is when this one begins, and after a claim of its
   * own has failed. The worker asks once then, since asking costs a statement.
   */
  #mayBeOpen = true;

  constructor(parts: FailedClaimsParts) {
    this.#parts = parts;
  }

  note(error: unknown, request: ClaimRequest): void {
    if (!isAboutTheValues(error)) return;
    this.#last = request;
    this.#mayBeOpen = true;
  }

  /** A claim went through, and took these. */
  noteFound(claimed: readonly ClaimedTask[], nowMs: number): void {
    if (this.#mayBeOpen) this.#learnOpen(claimed);
    this.#endAfter(claimed, nowMs);
  }

  /** This worker claims no more. Another whose claims fail raises the alert again. */
  stop(): void {
    for (const queue of this.#failing.keys()) this.#isOver(queue);
  }

  /** Until the claim would go through, or nothing can be done about it: each call takes out what it finds first. */
  async setAside(signal: AbortSignal): Promise<void> {
    while (this.#last && !signal.aborted) {
      const failed = this.#last;
      const all = await this.#ask(failed);
      for (const one of all) this.#tell(one);
      if (all.every(({ isLeft }) => isLeft)) this.#forget(failed);
    }
  }

  async #ask(failed: ClaimRequest): Promise<readonly SetAside[]> {
    try {
      return await setAsideBad(this.#parts.database, failed);
    } catch (error) {
      // What fails once more would fail for ever. The next claim may go through, or says what is wrong now.
      if (!isTransient(error)) this.#forget(failed);
      throw error;
    }
  }

  #forget(failed: ClaimRequest): void {
    if (this.#last === failed) this.#last = undefined;
  }

  #tell({ taskId, name, queue, reason, isLeft }: SetAside): void {
    const { events } = this.#parts;
    const what = taskId === null ? `queue ${JSON.stringify(queue)}` : `task ${taskId} (${name})`;
    if (!isLeft) events.emit("claim.passed-by", { what, reason });
    else if (!this.#failing.has(queue)) this.#tellLeft(queue, reason);
    if (isLeft) this.#failing.set(queue, performance.now());
    // Something was done about this queue, and another alert says what.
    else if (this.#failing.has(queue)) this.#isOver(queue);
  }

  #tellLeft(queue: string, reason: string): void {
    const { alerts, events } = this.#parts;
    events.emit("claims.failing", { queue, reason });
    const message = `Every claim from queue "${queue}" fails: ${reason}. No task is to blame, so all of them wait, and workers try again. Put that right; this ends by itself.`;
    void alerts.raise({ kind: KIND, subject: queue, message, details: { reason } });
  }

  /** Takes on the alerts that are open. These ones were claimed just before, so for their queues it is over. */
  #learnOpen(claimed: readonly ClaimedTask[]): void {
    const { database, queues, outages } = this.#parts;
    this.#mayBeOpen = false;
    readQueuesLeft(database, queues)
      .then((left) => {
        const nowMs = performance.now();
        for (const queue of left) if (!this.#failing.has(queue)) this.#failing.set(queue, nowMs);
        this.#endAfter(claimed, nowMs);
      })
      .catch((error: unknown) => outages.noticed(error, "claiming tasks"));
  }

  #endAfter(claimed: readonly ClaimedTask[], nowMs: number): void {
    for (const [queue, seenMs] of this.#failing) {
      if (nowMs - seenMs >= OVER_AFTER_MS || claimed.some((task) => task.queue === queue)) this.#isOver(queue);
    }
  }

  #isOver(queue: string): void {
    this.#failing.delete(queue);
    this.#parts.alerts.resolve(KIND, queue);
  }
}
