/**
 * The heart itself: connects, takes its session lock, beats, and connects again when that breaks, one statement at a time.
 * Says what it notices; decides only when its own process must stop trusting itself.
 *
 *   connect ──▶ pooler? ──▶ session lock ──▶ first beat ──▶ beat ─┬─▶ refused: this replica was declared dead
 *      ▲                                                          │
 *      └────────────────── broken, or no reply in time ◀──────────┘
 *
 * A connection on which no reply came in time keeps the session lock until the next one has it: a database that is slow, or
 * writes nothing for a while, must not cost the session.
 */
import { delay } from "../database/backoff.ts";
import type { Store } from "../database/database.ts";
import type { HeartPromise } from "../sql/hearts.ts";
import type { RunnerRecord } from "../sql/runners.ts";
import { type RunnerSign, recordsOf } from "./runner-signs.ts";
import { type FenceAfter, type FenceReason, fenceOn } from "./self-fencing.ts";
import type { Vitals } from "./vitals.ts";

/** One connection of the heart's own. */
export interface HeartConnection {
  /** False behind a pooler that gives each transaction another session: a lock would prove nothing. */
  readonly hasSession: boolean;
  readonly store: Store;
  takeSession(): Promise<unknown>;
  begin(promise: HeartPromise): Promise<boolean>;
  beat(sign: {
    vitals: Vitals;
    hasSession: boolean;
    isRemembered: boolean;
    runners: readonly RunnerRecord[];
  }): Promise<boolean>;
  /** Resolves when the connection is gone. */
  readonly ended: Promise<void>;
  close(): void;
}

export type HeartNews =
  | { readonly kind: "beating"; readonly hasSession: boolean }
  | { readonly kind: "lost"; readonly isServerDown: boolean; readonly message: string }
  /** Declared dead: nothing this replica holds is its own any more. */
  | { readonly kind: "refused" }
  /** Others may act on its silence from soon on: it must stop first. */
  | { readonly kind: "fenced"; readonly because: FenceReason }
  /** The main thread's loop turns again after it had been blocked for long. */
  | { readonly kind: "unblocked"; readonly blockedForMs: number; readonly stack: string | undefined };

export interface HeartLoopParts {
  readonly connect: () => Promise<HeartConnection>;
  readonly isServerDown: (error: unknown) => boolean;
  readonly promise: HeartPromise;
  readonly fenceAfter: FenceAfter;
  readonly vitals: () => Vitals;
  /** The runners in this replica's charge, as they were last heard. */
  readonly runners: () => readonly RunnerSign[];
  /** When another session was last seen to stand in for the heart's own; undefined where none has. */
  readonly standInSeenAt: () => number | undefined;
  readonly steadyNow: () => number;
  readonly tell: (news: HeartNews) => void;
  /** The database has acknowledged a beat that was sent then. */
  readonly onHeard: (sentAtMs: number) => void;
  readonly rememberEveryMs: number;
}

const FIRST_PAUSE_MS = 20;

export class HeartLoop {
  readonly #parts: HeartLoopParts;
  readonly #stopping = new AbortController();
  #heardAt = 0;
  #rememberedAt = 0;
  #sessionGoneAt: number | undefined;
  #isServerDown = false;
  #hasBegun = false;
  #needsStandIn = true;
  #isBeating = false;
  #connecting: Promise<HeartConnection> | undefined;
  #connection: HeartConnection | undefined;
  /** The one that has the session lock, for all that is known: it may be the last one, whose replies do not come. */
  #session: HeartConnection | undefined;

  constructor(parts: HeartLoopParts) {
    this.#parts = parts;
  }

  stop(): void {
    this.#stopping.abort();
  }

  /** The database as this heart reaches it, while it does. */
  get store(): Store | undefined {
    return this.#connection?.store;
  }

  /** Connects while the replica is still being made known, so that no time is lost. */
  connectAhead(): void {
    this.#connecting = this.#parts.connect();
    // Whether it could is looked at when it is needed.
    this.#connecting.catch(() => {});
  }

  /**
   * From when the replica's registration was sent, which was its first sign of life. Ends when it is stopped, refused or fenced:
   * nothing beats under this id again.
   */
  async run(heardAtMs: number): Promise<void> {
    this.#heardAt = heardAtMs;
    const { intervalMs } = this.#parts.promise;
    const { sessionGoneMs } = this.#parts.fenceAfter;
    const watchdog = setInterval(() => this.#watch(), this.#watchEveryMs());
    let pauseMs = FIRST_PAUSE_MS;
    try {
      while (!this.#stopping.signal.aborted) {
        try {
          await this.#live();
        } catch (error) {
          // One that was beating has lost its session, and has little time to get it back.
          if (this.#isBeating) pauseMs = FIRST_PAUSE_MS;
          this.#onBroken(error);
        }
        await delay(pauseMs * (0.5 + Math.random() / 2), this.#stopping.signal);
        pauseMs = Math.min(pauseMs * 2, intervalMs / 2, sessionGoneMs / 4);
      }
    } finally {
      clearInterval(watchdog);
      this.#session?.close();
    }
  }

  /** One connection's life. Returns when it is gone or the heart is told to stop. */
  async #live(): Promise<void> {
    const { connect, promise, tell } = this.#parts;
    const connecting = this.#connecting ?? connect();
    this.#connecting = undefined;
    const connection = await this.#within(connecting).catch((error: unknown) => {
      // Should it come after all: nobody needs it any more.
      void connecting.then((late) => late.close()).catch(() => {});
      throw error;
    });
    try {
      if (connection.hasSession) await this.#takeSession(connection);
      // The first time, the replica's registration was its beginning, unless that promised what only holds while another stands in.
      const mustBegin = this.#hasBegun || this.#parts.standInSeenAt() !== undefined;
      if (mustBegin && !(await this.#within(connection.begin(promise)))) return this.#end({ kind: "refused" });
      this.#hasBegun = true;
      this.#connection = connection;
      this.#isServerDown = false;
      this.#settleSession(connection);
      const gone = new AbortController();
      void connection.ended.then(() => gone.abort());
      while (!this.#stopping.signal.aborted) {
        if (!(await this.#beatOn(connection))) return this.#end({ kind: "refused" });
        if (!this.#isBeating) tell({ kind: "beating", hasSession: connection.hasSession });
        this.#isBeating = true;
        const pauseMs = promise.intervalMs * (0.9 + Math.random() * 0.1);
        await delay(pauseMs, this.#stopping.signal, gone.signal);
        if (gone.signal.aborted) throw new Error("the heart's connection ended");
      }
    } finally {
      this.#connection = undefined;
      if (connection !== this.#session) connection.close();
    }
  }

  /** From the one before, if that still has it: the lock is shared, so that at no time nobody holds it. */
  async #takeSession(connection: HeartConnection): Promise<void> {
    await this.#within(connection.takeSession());
    this.#replaceSession(connection);
    this.#needsStandIn = false;
    void connection.ended.then(() => {
      if (this.#session !== connection) return;
      this.#session = undefined;
      this.#sessionGoneAt ??= this.#parts.steadyNow();
    });
  }

  /** Only now that it has begun: until then, others go by when they saw the last session gone. */
  #settleSession(connection: HeartConnection): void {
    if (!connection.hasSession) this.#replaceSession(undefined);
    if (this.#session === connection || !connection.hasSession) this.#sessionGoneAt = undefined;
  }

  #replaceSession(next: HeartConnection | undefined): void {
    const before = this.#session;
    this.#session = next;
    before?.close();
  }

  async #beatOn(connection: HeartConnection): Promise<boolean> {
    const { vitals, runners, steadyNow, rememberEveryMs } = this.#parts;
    // Counted from when it was sent: when the database stamped it cannot be known, only that it was not before.
    const sentAt = steadyNow();
    const isRemembered = sentAt - this.#rememberedAt >= rememberEveryMs;
    const isHeard = await this.#within(
      connection.beat({
        vitals: vitals(),
        hasSession: connection.hasSession,
        isRemembered,
        runners: recordsOf(runners(), sentAt),
      }),
    );
    if (!isHeard) return false;
    this.#needsStandIn = false;
    this.#heardAt = sentAt;
    this.#parts.onHeard(sentAt);
    if (isRemembered) this.#rememberedAt = sentAt;
    return true;
  }

  /** A reply that does not come is a broken connection: packets may be swallowed without anybody being told. */
  async #within<T>(work: Promise<T>): Promise<T> {
    const limit = new AbortController();
    const ms = Math.max(1_000, Math.min(this.#parts.promise.intervalMs * 2, this.#parts.promise.promiseMs / 3));
    const tooLate = delay(ms, limit.signal, this.#stopping.signal).then(() => {
      throw new Error(`no reply from the database within ${ms} ms`);
    });
    tooLate.catch(() => {});
    try {
      return await Promise.race([work, tooLate]);
    } finally {
      limit.abort();
      work.catch(() => {});
    }
  }

  #onBroken(error: unknown): void {
    this.#isServerDown = this.#parts.isServerDown(error);
    if (!this.#isBeating || this.#stopping.signal.aborted) return;
    this.#isBeating = false;
    const message = error instanceof Error ? error.message : String(error);
    this.#parts.tell({ kind: "lost", isServerDown: this.#isServerDown, message });
  }

  #watch(): void {
    const now = this.#parts.steadyNow();
    const since = (at: number | undefined) => (at === undefined ? undefined : now - at);
    const because = fenceOn(
      {
        unheardForMs: now - this.#heardAt,
        sessionGoneForMs: since(this.#sessionGoneAt),
        standInUnseenForMs: this.#needsStandIn ? since(this.#parts.standInSeenAt()) : undefined,
        isServerDown: this.#isServerDown,
      },
      this.#parts.fenceAfter,
    );
    if (because) this.#end({ kind: "fenced", because });
  }

  #watchEveryMs(): number {
    const { unheardMs, sessionGoneMs } = this.#parts.fenceAfter;
    return Math.max(10, Math.min(unheardMs, sessionGoneMs) / 20);
  }

  #end(news: HeartNews): void {
    if (this.#stopping.signal.aborted) return;
    this.#parts.tell(news);
    this.#stopping.abort();
  }
}
