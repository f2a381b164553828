/**
 * What handlers say of their own getting on, on its way to the database: all tasks of a replica in one statement, each at most
 * once a second, and nothing where nothing has changed. A phase is written at once, since somebody may wait for it, for as
 * long as its task has writes saved up. What an attempt said last is written before its end is.
 */
import { createBackoff } from "../database/backoff.ts";
import type { Database } from "../database/database.ts";
import { inHalves } from "../database/in-halves.ts";
import { isAboutTheValues, isTransient } from "../database/transient.ts";
import type { Logger } from "../log.ts";
import { Batcher } from "../queue/batcher.ts";
import { LockedTaskError } from "../recovery/locked-task.ts";
import { type ReportWrite, writeProgress } from "../sql/progress.ts";
import type { TaskContext } from "../task/context.ts";
import type { ClaimId, ClaimOnTask, TaskId } from "../task/ids.ts";
import { checkPhase, checkProgress, isSameProgress, NO_PROGRESS, type Progress } from "../task/progress.ts";
import { keepingLines, LogRing } from "./log-ring.ts";
import type { Outages } from "./outages.ts";

/** What an attempt reports through: a part of its context. */
export interface Reporter extends Pick<TaskContext, "phase" | "progress"> {
  /** The logger with which its last lines are kept. */
  keeping(logger: Logger): Logger;
}

/** Who reports: an execution, or what stands for one. */
export interface ReportingAttempt {
  readonly claimed: ClaimOnTask;
  /** What a handler says that goes on all the same is dropped. */
  readonly hasEnded: boolean;
}

/** Where attempts report to. */
export interface Reporting {
  of(attempt: ReportingAttempt): Reporter;
  /** Writes what the attempt has said so far. */
  flush(claimId: ClaimId): Promise<void>;
}

const EVERY_MS = 1_000;
/** What comes after a quiet time is written soon, together with what others say in that moment. */
const SOON_MS = 100;
/** How many phases a task may change at once before they are coalesced like progress; one more for every second. */
const SAVED_PHASES = 10;

interface Entry {
  readonly claim: ClaimId;
  readonly task: TaskId;
  said: Progress;
  /** As of the last write that was sent. */
  sent: Progress;
  lines: LogRing | undefined;
  hasNewLines: boolean;
  sentAtMs: number;
  saved: number;
  /** The write that is under way: never two of one task. */
  pending: Promise<void> | undefined;
  waiting: (() => void)[];
}

export class Reports implements Reporting {
  readonly #database: Database;
  readonly #outages: Outages;
  readonly #entries = new Map<ClaimId, Entry>();
  readonly #dirty = new Set<Entry>();
  readonly #givingUp = new AbortController();
  readonly #batcher: Batcher<ReportWrite, undefined>;
  #timer: NodeJS.Timeout | undefined;
  #tickedAtMs = Number.NEGATIVE_INFINITY;

  constructor(parts: { database: Database; outages: Outages }) {
    this.#database = parts.database;
    this.#outages = parts.outages;
    this.#batcher = new Batcher({ maxItems: 1_000, maxUnderWay: 1, run: (reports) => this.#write(reports) });
  }

  of(attempt: ReportingAttempt): Reporter {
    return {
      phase: async (name, details) => {
        const report = checkPhase(name, details);
        const entry = this.#entryOf(attempt);
        if (entry) await this.#sayPhase(entry, { ...entry.said, ...report });
      },
      progress: (value, note) => {
        const report = checkProgress(value, note);
        const entry = this.#entryOf(attempt);
        if (entry) this.#say(entry, { ...entry.said, ...report });
      },
      keeping: (logger) =>
        keepingLines(logger, (level, fields, message) => {
          const entry = this.#entryOf(attempt);
          if (!entry) return;
          entry.lines ??= new LogRing();
          entry.lines.add(level, fields, message);
          entry.hasNewLines = true;
          this.#mark(entry);
        }),
    };
  }

  /**
   * Before the end of an attempt is written: what it said last. Undefined where there is nothing to wait for. The log alone is
   * no reason to wait for an attempt that went well.
   */
  settle(claim: ClaimId, wentWell: boolean): Promise<void> | undefined {
    const entry = this.#entries.get(claim);
    if (!entry) return undefined;
    this.#entries.delete(claim);
    const isSettled = isSameProgress(entry.said, entry.sent) && (wentWell || !entry.hasNewLines);
    if (!isSettled || entry.pending) return this.#sendLast(entry);
    this.#dirty.delete(entry);
    return undefined;
  }

  async flush(claim: ClaimId): Promise<void> {
    const entry = this.#entries.get(claim);
    if (entry && (entry.pending || this.#dirty.has(entry))) await this.#sendLast(entry);
  }

  /** Of an attempt whose claim is lost: nothing it says counts any more. */
  forget(claim: ClaimId): void {
    const entry = this.#entries.get(claim);
    if (!entry) return;
    this.#entries.delete(claim);
    this.#dirty.delete(entry);
    for (const resolve of entry.waiting.splice(0)) resolve();
  }

  /** Resolves when all that was said is on record. */
  async idle(): Promise<void> {
    await Promise.all([...this.#dirty].map((entry) => this.#sendLast(entry)));
    await this.#batcher.idle();
    // Whoever waited for one of them goes on first.
    await new Promise((resume) => setImmediate(resume));
  }

  /** Stops trying: nobody waits for a report any longer. */
  giveUp(): void {
    clearTimeout(this.#timer);
    this.#givingUp.abort();
  }

  #entryOf({ claimed, hasEnded }: ReportingAttempt): Entry | undefined {
    const claim = claimed.claimId;
    const known = this.#entries.get(claim);
    if (known || hasEnded) return known;
    const entry: Entry = {
      ...{ claim, task: claimed.taskId, said: NO_PROGRESS, sent: NO_PROGRESS, lines: undefined, hasNewLines: false },
      ...{ sentAtMs: Number.NEGATIVE_INFINITY, saved: SAVED_PHASES, pending: undefined, waiting: [] },
    };
    this.#entries.set(claim, entry);
    return entry;
  }

  #say(entry: Entry, said: Progress): void {
    if (isSameProgress(entry.said, said)) return;
    entry.said = said;
    this.#mark(entry);
  }

  async #sayPhase(entry: Entry, said: Progress): Promise<void> {
    this.#say(entry, said);
    if (isSameProgress(entry.said, entry.sent)) return entry.pending;
    const written = new Promise<void>((resolve) => entry.waiting.push(resolve));
    this.#sendIfAwaited(entry);
    await written;
  }

  #sendIfAwaited(entry: Entry): void {
    if (entry.waiting.length === 0 || entry.pending) return;
    const now = performance.now();
    const regained = entry.sentAtMs > 0 ? (now - entry.sentAtMs) / EVERY_MS : 0;
    const saved = Math.min(SAVED_PHASES, entry.saved + regained);
    if (saved < 1) return;
    entry.saved = saved - 1;
    this.#send(entry);
  }

  #mark(entry: Entry): void {
    this.#dirty.add(entry);
    if (this.#timer || this.#givingUp.signal.aborted) return;
    const inMs = Math.max(SOON_MS, this.#tickedAtMs + EVERY_MS - performance.now());
    this.#timer = setTimeout(() => this.#tick(), inMs);
    this.#timer.unref();
  }

  #tick(): void {
    this.#timer = undefined;
    this.#tickedAtMs = performance.now();
    for (const entry of this.#dirty) {
      if (!entry.pending && this.#tickedAtMs - entry.sentAtMs >= EVERY_MS) this.#send(entry);
    }
    for (const entry of this.#dirty) this.#mark(entry);
  }

  async #sendLast(entry: Entry): Promise<void> {
    await entry.pending;
    this.#send(entry);
    await entry.pending;
  }

  #send(entry: Entry): void {
    this.#dirty.delete(entry);
    const isSign = !isSameProgress(entry.said, entry.sent);
    const waiting = entry.waiting.splice(0);
    if (!isSign && !entry.hasNewLines) {
      for (const resolve of waiting) resolve();
      return;
    }
    const log = entry.hasNewLines && entry.lines ? JSON.stringify(entry.lines.last()) : undefined;
    entry.sent = entry.said;
    entry.hasNewLines = false;
    entry.sentAtMs = performance.now();
    entry.pending = this.#batcher.add({ claim: entry.claim, task: entry.task, ...entry.said, log, isSign }).then(() => {
      entry.pending = undefined;
      for (const resolve of waiting) resolve();
      this.#sendIfAwaited(entry);
    });
  }

  /** What the database will not take is dropped, and said: a report must not hold up an outcome, nor the reports of others. */
  async #write(reports: readonly ReportWrite[]): Promise<undefined[]> {
    await inHalves(
      reports,
      (part) => this.#writePart(part),
      async (_, error) => {
        this.#outages.noticed(error, "writing progress");
        return [];
      },
    );
    return reports.map(() => undefined);
  }

  /** Repeated while the database is away. */
  async #writePart(reports: readonly ReportWrite[]): Promise<readonly never[]> {
    const backoff = createBackoff({ firstMs: 50, maxMs: 2_000 });
    while (!this.#givingUp.signal.aborted) {
      try {
        const locked = new Set(await writeProgress(this.#database, reports));
        this.#outages.over("writing progress");
        for (const report of reports) if (locked.has(report.claim)) this.#onLocked(report);
        break;
      } catch (error) {
        if (isAboutTheValues(error)) throw error;
        this.#outages.noticed(error, "writing progress");
        if (!isTransient(error)) break;
        await backoff.pause(this.#givingUp.signal);
      }
    }
    return [];
  }

  /** While its attempt goes on, it is written again with the next tick. Its end does not wait for that. */
  #onLocked({ claim, task }: ReportWrite): void {
    this.#outages.noticed(new LockedTaskError(task), "writing progress");
    const entry = this.#entries.get(claim);
    if (!entry) return;
    entry.sent = NO_PROGRESS;
    entry.hasNewLines = entry.lines !== undefined;
    this.#mark(entry);
  }
}
