/**
 * One row that cannot be claimed makes the whole claim fail. It is taken out of the way, so that it does not keep a worker from all others.
 * Where no row is to blame, all of them stay, and an alert is open until a claim goes through.
 */
import type { Database } from "../database/database.ts";
import { isAboutTheValues, isTransient } from "../database/transient.ts";
import type { Events } from "../events.ts";
import { resolveAlerts } from "../sql/alerts.ts";
import type { ClaimRequest } from "../sql/claims.ts";
import { type SetAside, setAsideBad } from "../sql/set-aside.ts";
import type { Outages } from "./outages.ts";

const KIND = "claims-failing";
/** A claim that took nothing proves nothing: the tasks may be behind where it began. While claims fail, one does so more often than this. */
const OVER_AFTER_MS = 30_000;

interface FailedClaimsParts {
  readonly database: Database;
  readonly events: Events;
  readonly outages: Outages;
}

export class FailedClaims {
  readonly #parts: FailedClaimsParts;
  #last: ClaimRequest | undefined;
  /** Queues from which nothing can be claimed, and when that was seen last. */
  readonly #failing = new Map<string, number>();
  /** One after the other, so that what was said last is what stays. */
  #writing: Promise<void> = Promise.resolve();

  constructor(parts: FailedClaimsParts) {
    this.#parts = parts;
  }

  note(error: unknown, request: ClaimRequest): void {
    if (isAboutTheValues(error)) this.#last = request;
  }

  /** A claim went through, and took so many. */
  noteFound(claimed: number, nowMs: number): void {
    for (const [queue, seenMs] of this.#failing) {
      if (claimed > 0 || nowMs - seenMs >= OVER_AFTER_MS) this.#isOver(queue);
    }
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
    await this.#writing;
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
    else if (!this.#failing.has(queue)) events.emit("claims.failing", { queue, reason });
    if (isLeft) this.#failing.set(queue, performance.now());
  }

  #isOver(queue: string): void {
    const { database, outages } = this.#parts;
    this.#failing.delete(queue);
    this.#writing = this.#writing
      .then(() => resolveAlerts(database, KIND, queue))
      .catch((error: unknown) => outages.noticed(error, "claiming tasks"));
  }
}
