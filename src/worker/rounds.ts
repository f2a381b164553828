/**
 * The worker's conversation with the database while tasks flow: one statement writes what has ended and takes what there
 * is room for. Where batches are large, two are under way at a time, so that the database works on one while this process
 * works on the other; what ends in the meantime leaves together with the next. A slow task holds back nobody.
 *
 * While the database is away outcomes are held in memory (held-outcomes.ts): a process that is killed in that time loses them, and
 * its tasks are recovered like those of any dead worker.
 */
import type { Alerts } from "../alerts/alerts.ts";
import type { Database } from "../database/database.ts";
import type { ClaimRequest } from "../sql/claims.ts";
import { type EndingReport, endClaims, findLockedClaims, type Outcome } from "../sql/outcomes.ts";
import { type Found, workRound } from "../sql/work-round.ts";
import { HeldOutcomes } from "./held-outcomes.ts";
import type { Outages } from "./outages.ts";
import { howManyFit, pauseBeforeRoundMs } from "./round-plan.ts";
import { StuckOutcomes } from "./stuck-outcomes.ts";

/** done: written now. repeat: had been written, the reply was lost. late: refused, the claim is lost. given up: see `giveUp`. */
export type OutcomeStatus = "done" | "repeat" | "late" | "given-up";

/** What to take in a round, and who is told what came of it. */
export interface Look {
  readonly request: ClaimRequest;
  found(found: Found): void;
  failed(error: unknown): void;
}

/** What goes along with a look. */
export interface EndsBeside {
  readonly outcomes: number;
  /** How many of them others may have waited for. Counted only by whoever asks: there may be thousands. */
  readonly waitedFor: () => number;
  /** For less it is not worth a round. */
  readonly atLeast: number;
}

export interface RoundsParts<Ended> {
  readonly database: Database;
  readonly alerts: Alerts;
  readonly outages: Outages;
  /** What there is room for now; undefined where there is none or nothing to be had. */
  readonly look: (beside: EndsBeside) => Look | undefined;
  /** Whether another may have waited for its end. */
  readonly isWaitedFor: (ended: Ended) => boolean;
  /** How much there must be to do for a second round beside the first; less than that goes with the next. */
  readonly secondFrom: number;
  /** Nothing is in hand. */
  readonly isIdle: () => boolean;
  /** There is more to be had than there is room for. */
  readonly hasBacklog: () => boolean;
  /** There is enough in hand to go on with while a round is under way. */
  readonly hasReserve: () => boolean;
  /** Tasks were let go that may sort before those claimed last; none was claimed in the same round. */
  readonly onUnparked: () => void;
  /** It is known what became of these outcomes: the status of each, in the same order. */
  readonly onStatuses: (ended: readonly Ended[], statuses: readonly OutcomeStatus[]) => void;
}

interface Reply {
  readonly report: EndingReport;
  /** Where it was asked for tasks, too. */
  readonly found?: Found;
}

const MAX_UNDER_WAY = 2;
/** A round that takes longer than this is held up by something: nothing waits for it any more. */
const HELD_UP_AFTER_MS = 50;
const ROUNDS_OF_LATE = 8;

/** `Ended`: whatever has ended, to be told apart by whoever hears of the statuses. */
export class Rounds<Ended extends { readonly outcome: Outcome }> {
  readonly #parts: RoundsParts<Ended>;
  readonly #givingUp = new AbortController();
  readonly #heldOutcomes: HeldOutcomes<Ended>;
  readonly #stuckOutcomes: StuckOutcomes;
  #waiting: Ended[] = [];
  readonly #waitedFor = () => this.#waiting.filter(this.#parts.isWaitedFor).length;
  #underWay = 0;
  #held = 0;
  #isScheduled = false;
  #begunAtMs = 0;
  #repliedAtMs = 0;
  #usualMs = 0;
  #brought = 0;
  #later: NodeJS.Timeout | undefined;
  #pause: NodeJS.Timeout | undefined;
  #onIdle: (() => void)[] = [];

  constructor(parts: RoundsParts<Ended>) {
    this.#parts = parts;
    const { database, alerts, outages } = parts;
    this.#stuckOutcomes = new StuckOutcomes({ alerts, outages });
    this.#heldOutcomes = new HeldOutcomes({
      write: async (outcomes) => this.#statuses(outcomes, await endClaims(database, outcomes)),
      findLocked: (outcomes) => findLockedClaims(database, outcomes),
      onStatuses: (ended, statuses) => this.#settle(ended, statuses),
      onTrouble: (error) => outages.noticed(error, "writing outcomes"),
      onStuck: (outcome, error) => this.#stuckOutcomes.note(outcome, error),
      signal: this.#givingUp.signal,
    });
  }

  /** Outcomes that are not written yet. */
  get held(): number {
    return this.#held;
  }

  finish(ended: Ended): void {
    this.#held++;
    this.#waiting.push(ended);
    this.tick();
  }

  /**
   * There may be something to write or to take. At the end of this turn of the loop: what else ends in it goes along. Where nothing
   * runs there is nothing to wait for.
   */
  tick(): void {
    if (this.#isScheduled || this.#underWay >= MAX_UNDER_WAY) return;
    this.#isScheduled = true;
    if (this.#parts.isIdle()) process.nextTick(() => this.#beginAll());
    else setImmediate(() => this.#beginAll());
  }

  #beginAll(): void {
    this.#isScheduled = false;
    while (this.#underWay < MAX_UNDER_WAY && this.#begin());
  }

  /** Resolves when every outcome is written, or given up. */
  async idle(): Promise<void> {
    if (this.#held > 0) await new Promise<void>((resolve) => this.#onIdle.push(resolve));
  }

  /** Stops trying: what is still held is lost, and the tasks stay with this replica until they are recovered. */
  giveUp(): void {
    this.#givingUp.abort();
    clearTimeout(this.#pause);
    clearTimeout(this.#later);
  }

  #begin(): boolean {
    if (this.#underWay === 0 && this.#pauses()) return false;
    const outcomes = this.#waiting.length;
    const isHeldUp = performance.now() - this.#begunAtMs >= HELD_UP_AFTER_MS;
    const isFirst = this.#underWay === 0 || isHeldUp;
    const atLeast = isFirst || outcomes >= this.#parts.secondFrom ? 1 : this.#parts.secondFrom;
    const look = this.#parts.look({ outcomes, waitedFor: this.#waitedFor, atLeast });
    if (!look && outcomes < atLeast) {
      if (!isFirst) this.#tickLater();
      return false;
    }
    const ended = this.#waiting.splice(0, howManyFit(this.#waiting));
    void this.#run(ended, look);
    return true;
  }

  /** Whether it is better to wait a moment, in which more will end. */
  #pauses(): boolean {
    if (this.#givingUp.signal.aborted) return false;
    const pauseMs = pauseBeforeRoundMs({
      hasBacklog: this.#parts.hasBacklog(),
      hasReserve: this.#parts.hasReserve(),
      ended: this.#waiting.length,
      brought: this.#brought,
      sinceReplyMs: performance.now() - this.#repliedAtMs,
      usualMs: this.#usualMs,
    });
    clearTimeout(this.#pause);
    this.#pause = pauseMs > 0 ? setTimeout(() => this.tick(), pauseMs) : undefined;
    return pauseMs > 0;
  }

  /** In case that the round before does not come back soon. */
  #tickLater(): void {
    if (this.#later || this.#givingUp.signal.aborted) return;
    this.#later = setTimeout(() => {
      this.#later = undefined;
      this.tick();
    }, HELD_UP_AFTER_MS);
  }

  async #run(ended: readonly Ended[], look: Look | undefined): Promise<void> {
    this.#underWay++;
    const begunAtMs = performance.now();
    this.#begunAtMs = begunAtMs;
    const outcomes = ended.map(({ outcome }) => outcome);
    const reply = await this.#ask(outcomes, look).catch((error: unknown) => ({ error }));
    this.#repliedAtMs = performance.now();
    this.#usualMs += (this.#repliedAtMs - begunAtMs - this.#usualMs) / ROUNDS_OF_LATE;
    this.#underWay--;
    if ("error" in reply) this.#onFailed(ended, look, reply.error);
    else this.#onReply(ended, look, reply);
    this.tick();
  }

  async #ask(outcomes: readonly Outcome[], look: Look | undefined): Promise<Reply> {
    if (!look) return { report: await endClaims(this.#parts.database, outcomes) };
    const { ended: report, ...found } = await workRound(this.#parts.database, look.request, outcomes);
    return { report, found };
  }

  #onReply(ended: readonly Ended[], look: Look | undefined, { report, found }: Reply): void {
    const outcomes = ended.map(({ outcome }) => outcome);
    if (found) this.#brought = found.claimed.length;
    const statuses = this.#statuses(outcomes, {
      ...report,
      hasUnparked: report.hasUnparked && !found?.claimed.length,
    });
    if (found) look?.found(found);
    this.#settle(ended, statuses);
  }

  #onFailed(ended: readonly Ended[], look: Look | undefined, error: unknown): void {
    // The claim may have been committed and only its reply lost: whoever looked has to look for its own.
    if (look) look.failed(error);
    else this.#parts.outages.noticed(error, "writing outcomes");
    if (ended.length > 0) this.#heldOutcomes.add(ended);
  }

  #statuses(outcomes: readonly Outcome[], report: EndingReport): OutcomeStatus[] {
    this.#parts.outages.over("writing outcomes");
    this.#stuckOutcomes.noteWritten(outcomes);
    if (report.hasUnparked) this.#parts.onUnparked();
    if (report.repeated.length + report.late.length === 0)
      return new Array<OutcomeStatus>(outcomes.length).fill("done");
    const repeated = new Set(report.repeated);
    const late = new Set(report.late);
    return outcomes.map(({ claim }) => (late.has(claim) ? "late" : repeated.has(claim) ? "repeat" : "done"));
  }

  #settle(ended: readonly Ended[], statuses: readonly OutcomeStatus[]): void {
    this.#held -= ended.length;
    this.#parts.onStatuses(ended, statuses);
    if (this.#held === 0) for (const resolve of this.#onIdle.splice(0)) resolve();
  }
}
