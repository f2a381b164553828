/**
 * Watches from another thread whether a thread turns its loop: a heart its main thread, a replica its runners' threads.
 *
 *   turns ──▶ blocked ──stackAfter──▶ noted, with its stack ──2×, 4×…──▶ noted again ──▶ turns: said, and how long it took
 *                │
 *                └── past a task's timeout, or endAfter ──▶ ended
 */

import type { ClaimId } from "../task/ids.ts";
import { type BlockedLoopPolicy, blockageOn, blockedForMs } from "./blockage.ts";
import type { OpenDeadline, SharedDeadlines } from "./deadlines.ts";
import type { ThreadStack } from "./thread-stack.ts";

export interface LoopWatchParts {
  readonly policy: BlockedLoopPolicy;
  /** When the loop last turned. */
  readonly tickedAtMs: () => number;
  readonly deadlines: Pick<SharedDeadlines, "overdueAt">;
  readonly steadyNow: () => number;
  readonly readStack: () => Promise<ThreadStack>;
  /** Each puts it on record, or passes it on; what throws is tried again by a later look. */
  readonly note: (sight: BlockageSight) => Promise<void>;
  readonly turned: (blockedMs: number, stack: string | undefined) => Promise<void>;
  /** `late`: those whose time is over; none where the bound is reached. */
  readonly end: (sight: BlockageSight, late: readonly OpenDeadline[]) => Promise<void>;
}

export interface BlockageSight {
  readonly blockedMs: number;
  /** Where it is, as of the last look that got an answer. */
  readonly stack: string | undefined;
  /** How long this look's answer took; undefined: there was none. */
  readonly pausedMs: number | undefined;
  /** What should have ended by now and was not told, since its loop does not turn. */
  readonly overdue?: readonly ClaimId[] | undefined;
}

/** What was last noted of the present blockage. */
interface Noted {
  readonly tickedAtMs: number;
  readonly atMs: number;
  readonly stack: string | undefined;
}

/** A watcher that comes this late was asleep itself. */
const ASLEEP_MS = 1_000;
/** What is about to be ended is asked where it is if it has not turned its loop for this long, a few ticks. */
const LAST_LOOK_AFTER_MS = 250;

export class LoopWatch {
  readonly #parts: LoopWatchParts;
  #timer: NodeJS.Timeout | undefined;
  #lookedAtMs: number;
  #awakeSinceMs: number;
  #looking: Promise<void> | undefined;
  #noted: Noted | undefined;

  constructor(parts: LoopWatchParts) {
    this.#parts = parts;
    this.#lookedAtMs = parts.steadyNow();
    this.#awakeSinceMs = this.#lookedAtMs;
  }

  start(): void {
    this.#timer = setInterval(() => void this.#wake(), Math.min(250, this.#parts.policy.stackAfterMs / 4));
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Before it is ended: where it is, should it be blocked. Resolves when that is noted, or a look that was under way is over. */
  lookLast(): Promise<void> {
    return this.#wake(LAST_LOOK_AFTER_MS);
  }

  #wake(noteAfterMs?: number): Promise<void> {
    const nowMs = this.#parts.steadyNow();
    if (nowMs - this.#lookedAtMs > ASLEEP_MS) this.#awakeSinceMs = nowMs;
    this.#lookedAtMs = nowMs;
    // What could not be written now is written by a later look.
    this.#looking ??= this.look(nowMs, noteAfterMs)
      .catch(() => {})
      .finally(() => {
        this.#looking = undefined;
      });
    return this.#looking;
  }

  async look(nowMs: number, noteAfterMs = Number.POSITIVE_INFINITY): Promise<void> {
    const { policy, deadlines, tickedAtMs: lastTick } = this.#parts;
    const tickedAtMs = lastTick();
    if (this.#noted && tickedAtMs > this.#noted.tickedAtMs) await this.#onTurned(this.#noted, tickedAtMs);
    const blockedMs = blockedForMs({ nowMs, tickedAtMs, awakeSinceMs: this.#awakeSinceMs });
    const passed = blockedMs < policy.timeoutGraceMs ? [] : deadlines.overdueAt(nowMs);
    const overdueForMs = passed.length === 0 ? undefined : nowMs - Math.min(...passed.map(({ atMs }) => atMs));
    const action = blockageOn({ blockedForMs: blockedMs, notedAtMs: this.#noted?.atMs, overdueForMs }, policy);
    if (action === "wait" && blockedMs < noteAfterMs) return;
    const { stack = this.#noted?.stack, tookMs } = await this.#read();
    // It turns again: there is nothing to say, or the next look will say it.
    const isOver = () => lastTick() !== tickedAtMs;
    if (isOver()) return;
    const overdue = passed.map(({ claimId }) => claimId);
    const sight = { blockedMs, stack, pausedMs: tookMs, ...(overdue.length === 0 ? {} : { overdue }) };
    await this.#parts.note(sight);
    this.#noted = { tickedAtMs, atMs: blockedMs, stack };
    if (action === "wait" || action === "note" || isOver()) return;
    const late = passed.filter(({ atMs }) => nowMs - atMs >= policy.timeoutGraceMs);
    await this.#parts.end(sight, action === "end-timed-out" ? late : []);
  }

  /** Without an answer there is no time that it took. */
  async #read(): Promise<{ stack: string | undefined; tookMs: number | undefined }> {
    const { stack, tookMs } = await this.#parts.readStack();
    return { stack, tookMs: stack === undefined ? undefined : tookMs };
  }

  async #onTurned({ tickedAtMs, stack }: Noted, turnedAtMs: number): Promise<void> {
    await this.#parts.turned(turnedAtMs - tickedAtMs, stack);
    this.#noted = undefined;
  }
}
