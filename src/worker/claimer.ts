/**
 * Decides when to look for tasks and for how many: as long as there may be some, whenever there is room; otherwise when
 * told, when the next is due, or after a while.
 *
 *   looking ──came back short──▶ settling ──found nothing──▶ asleep ──told, due, or after a while──▶ waking
 *      ▲                                                                                               │
 *      └────────────────────────────────── found as many as it asked for ──────────────────────────────┘
 *
 * Settling: asks to be told, then looks once more: what was put in before the bell was armed has not rung it.
 * Waking: one look, to see whether there is more to come; only then are two under way.
 */
import type { Alerts } from "../alerts/alerts.ts";
import { createBackoff } from "../database/backoff.ts";
import type { Database } from "../database/database.ts";
import type { Notices } from "../database/notices.ts";
import type { Events } from "../events.ts";
import { adoptClaims, type ClaimedTask, type LaneCursor, type Outlook, readOutlook } from "../sql/claims.ts";
import type { Found } from "../sql/work-round.ts";
import type { ClaimOnTask, ReplicaId } from "../task/ids.ts";
import { type LookMade, type Phase, phaseAfter } from "./after-look.ts";
import { afterEnds, type Demand, NO_DEMAND, onlyFollowing, totalOf } from "./demand.ts";
import { FailedClaims } from "./failed-claims.ts";
import { tellApart } from "./forgotten-ends.ts";
import { HeldUpLooks } from "./held-up-looks.ts";
import { LockedQueues } from "./locked-queues.ts";
import type { Outages } from "./outages.ts";
import type { Received } from "./received.ts";
import type { EndsBeside, Look } from "./rounds.ts";
import { type Search, SearchCursors } from "./search-cursors.ts";

/** By the time of the reply this replica may have another id, and others may have what it had asked for. */
export interface Asked {
  readonly under: ReplicaId;
  /** By the steady clock. */
  readonly atMs: number;
}

export interface ClaimerParts {
  readonly database: Database;
  readonly events: Events;
  readonly alerts: Alerts;
  readonly notices: Notices;
  readonly outages: Outages;
  readonly replica: { readonly id: ReplicaId };
  readonly names: readonly string[];
  readonly queues: readonly string[] | undefined;
  /** Some of its queues have a limit in this process: two looks at once could both use the same room. */
  readonly looksAlone: boolean;
  readonly pollMs: number;
  readonly steadyNow: () => number;
  /** What there is room for, besides what was asked for and is on its way. */
  readonly demand: (asked: Demand, isAlone: boolean) => Demand;
  readonly known: () => readonly ClaimOnTask[];
  /** Not all that there is may wait in reserve. */
  readonly onMet: () => void;
  /** There may be something to take. */
  readonly onMore: () => void;
  readonly onClaimed: (tasks: readonly ClaimedTask[], asked: Asked) => void;
  readonly onAdopted: (tasks: readonly ClaimedTask[], asked: Asked) => void;
  readonly received: Received;
  /** They have run, and the database has forgotten how they ended. */
  readonly onForgotten: (tasks: readonly ClaimedTask[], under: ReplicaId) => Promise<unknown>;
}

/** How long a worker sleeps that could not ask to be told: somebody holds up the bells. */
const UNARMED_POLL_MS = 250;
/** For how many a claim is taken to ask in what is tried for want of a claim that failed. */
const USUALLY_ASKED = 100;

export class Claimer {
  readonly #parts: ClaimerParts;
  readonly #cursors = new SearchCursors();
  readonly #stopping = new AbortController();
  readonly #backoff = createBackoff({ firstMs: 100, maxMs: 5_000 });
  readonly #lockedQueues: LockedQueues;
  readonly #failedClaims: FailedClaims;
  readonly #heldUpLooks = new HeldUpLooks();
  #phase: Phase = "waking";
  #asked: Demand = NO_DEMAND;
  #underWay = 0;
  #isArmed = false;
  #mayOwnUnknown = false;
  #regaining: Promise<void> | undefined;
  #endingForgotten: Promise<unknown> | undefined;
  #alarm: NodeJS.Timeout | undefined;
  #unsubscribe: (() => void)[] = [];
  #onNoneUnderWay: (() => void)[] = [];

  constructor(parts: ClaimerParts) {
    this.#parts = parts;
    this.#lockedQueues = new LockedQueues(parts);
    this.#failedClaims = new FailedClaims(parts);
  }

  start(): void {
    const { notices, queues, onMore } = this.#parts;
    this.#unsubscribe = [
      notices.on("ready", (queue) => {
        if (queue === "*" || !queues || queues.includes(queue)) this.#onTold();
      }),
      notices.onReconnect(() => this.#onTold()),
    ];
    onMore();
  }

  /** Resolves when nothing more can come. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    clearTimeout(this.#alarm);
    for (const unsubscribe of this.#unsubscribe.splice(0)) unsubscribe();
    await this.#noneUnderWay();
    await this.#regaining;
    await this.#endingForgotten;
    this.#lockedQueues.stop();
    this.#failedClaims.stop();
  }

  /** The last look found as many as it asked for. */
  get hasBacklog(): boolean {
    return this.#phase === "looking";
  }

  /** There may be something to take. */
  wake(): void {
    clearTimeout(this.#alarm);
    if (this.#phase !== "looking") this.#phase = "waking";
    this.#parts.onMore();
  }

  /** There is room for another. Where nothing is to be had, that changes nothing, unless it was the room that was missing. */
  onRoom(): void {
    if (this.#phase !== "asleep") this.#parts.onMore();
    else if (this.#parts.looksAlone) this.wake();
  }

  /** A reply was lost: there may be tasks that are ours without our knowing. */
  lookForOwn(): void {
    this.#mayOwnUnknown = true;
    void this.#regain();
  }

  /** Tasks were put back that sort before where the search would begin. */
  lookFromTheBeginning(): void {
    this.#cursors.forget();
    this.wake();
  }

  /** The next look, if there is reason for one. Asleep, there is one only beside ends that others may have waited for. */
  look({ outcomes, waitedFor, atLeast }: EndsBeside): Look | undefined {
    const { replica, names, queues, demand: demandBesides, notices, looksAlone } = this.#parts;
    const isAlone = looksAlone || this.#phase !== "looking";
    const isFollowing = this.#phase === "asleep";
    const following = isFollowing ? waitedFor() : 0;
    if (this.#stopping.signal.aborted || this.#regaining || (isFollowing && following === 0)) return undefined;
    if (isAlone && this.#underWay > 0) return undefined;
    const room = demandBesides(this.#asked, isAlone);
    const startedMs = performance.now();
    const isAfterEnds = isFollowing || (this.#phase === "settling" && !this.#cursors.isFullLookDue(startedMs));
    const demand = isFollowing ? onlyFollowing(room, following) : isAfterEnds ? afterEnds(room, outcomes) : room;
    if (totalOf(demand) < atLeast) return undefined;
    // Whoever arms a bell waits for those who ring one, and outcomes may ring: never both in one transaction.
    const isSettling = this.#phase === "settling" && outcomes === 0;
    const arms = isSettling && notices.isListening && !this.#isArmed;
    if (arms) {
      // Before the reply: the bell may ring, and unset this again, before the reply to its arming is here.
      this.#isArmed = true;
      this.#cursors.wantFullLook();
    }
    const search = isFollowing ? this.#cursors.whereLeft() : this.#cursors.begin(startedMs);
    const { cursors, seenUpTo, lastLaneId } = search;
    const { id } = replica;
    const askedAtMs = this.#parts.steadyNow();
    const asking = this.#parts.received.noteAsked();
    const request = { replicaId: id, names, queues, cursors, seenUpTo, lastLaneId, arms, ...demand };
    this.#begun(demand);
    return {
      request,
      found: (found) => {
        this.#parts.received.noteAnswer(asking, found.claimed);
        this.#over(demand);
        const asked = totalOf(demand);
        const { claimed, isUnarmed } = found;
        const hasMore = found.hasMore || found.isCutShort;
        if (isUnarmed) this.#isArmed = false;
        const hasMet = found.hasMore && demand.reserve > 0;
        this.#onFound(found, { search, startedMs, asked, isAfterEnds, isFollowing, isSettling, hasMore, hasMet });
        if (hasMet) this.#onMet(search);
        if (claimed.length > 0) this.#parts.onClaimed(claimed, { under: id, atMs: askedAtMs });
      },
      failed: (error) => {
        this.#over(demand);
        this.#failedClaims.note(error, request);
        this.#onFailed(error);
      },
    };
  }

  #begun(demand: Demand): void {
    this.#underWay++;
    const { run, reserve, prefetch, room } = this.#asked;
    const asked = { run: run + demand.run, reserve: reserve + demand.reserve, prefetch: prefetch + demand.prefetch };
    this.#asked = { ...asked, room };
  }

  #over(demand: Demand): void {
    this.#underWay--;
    const { run, reserve, prefetch, room } = this.#asked;
    const asked = { run: run - demand.run, reserve: reserve - demand.reserve, prefetch: prefetch - demand.prefetch };
    this.#asked = { ...asked, room };
    if (this.#underWay === 0) for (const resolve of this.#onNoneUnderWay.splice(0)) resolve();
  }

  async #noneUnderWay(): Promise<void> {
    if (this.#underWay > 0) await new Promise<void>((resolve) => this.#onNoneUnderWay.push(resolve));
  }

  #onFound(found: Found, look: LookMade): void {
    const nowMs = performance.now();
    this.#parts.outages.over("claiming tasks");
    this.#backoff.reset();
    this.#heldUpLooks.note(found, look.search.isFullLook);
    this.#lockedQueues.note(found.lockedQueue, found.claimed, nowMs);
    this.#failedClaims.noteFound(found.claimed, nowMs);
    const { search, asked, hasMet } = look;
    this.#cursors.end(search, { ...found, asked, hasMet, tookMs: nowMs - look.startedMs, nowMs });
    const phase = phaseAfter(this.#phase, look, found.claimed);
    if (phase !== this.#phase) clearTimeout(this.#alarm);
    if (phase !== this.#phase && phase === "asleep") void this.#fallAsleep();
    else this.#phase = phase;
    // Whoever falls asleep looks back in any case.
    if (phase !== "asleep" && this.#cursors.msUntilDeepLook(nowMs) === 0) void this.#lookBack();
  }

  /** Something that must not wait for a slot: it is come back for when there is one, with a search that begins where this one did. */
  #onMet(search: Search): void {
    this.#cursors.repeat(search);
    this.#parts.onMet();
  }

  #onFailed(error: unknown): void {
    this.#parts.outages.noticed(error, "claiming tasks");
    this.#mayOwnUnknown = true;
    this.#onTold();
    void this.#regain(true);
  }

  #onTold(): void {
    this.#isArmed = false;
    this.#cursors.wantFullLook();
    this.wake();
  }

  /** Until the next task is due, but not for longer than it takes to look without being told. */
  async #fallAsleep(): Promise<void> {
    const { notices } = this.#parts;
    this.#phase = "asleep";
    const dueMs = (await this.#lookBack())?.dueMs;
    if (this.#phase !== "asleep" || this.#stopping.signal.aborted) return;
    const nowMs = performance.now();
    const isUntold = notices.isListening && !this.#isArmed;
    const looksSoonMs = isUntold ? UNARMED_POLL_MS : Number.POSITIVE_INFINITY;
    const pollMs = Math.min(this.#parts.pollMs, looksSoonMs, this.#heldUpLooks.pauseMs());
    const lookMs = this.#cursors.msUntilFullLook(nowMs) ?? pollMs;
    const deepLookMs = this.#cursors.msUntilDeepLook(nowMs) ?? pollMs;
    const pauseMs = Math.max(1, Math.min(pollMs, dueMs ?? pollMs, lookMs, deepLookMs));
    clearTimeout(this.#alarm);
    // Jittered upwards only, so that a task that is due is not looked for a moment too early.
    this.#alarm = setTimeout(() => this.#onAlarm(), pauseMs * (1 + Math.random() * 0.1));
  }

  /** Asks when the next task is due. Now and then it also asks what was overlooked; the next search finds that. */
  async #lookBack(): Promise<Outlook | undefined> {
    const { database, names, queues, outages } = this.#parts;
    const startedMs = performance.now();
    const seenUpTo = this.#cursors.beginDeepLook(startedMs);
    const end = (overlooked?: readonly LaneCursor[]) => {
      const nowMs = performance.now();
      if (seenUpTo !== undefined) this.#cursors.endDeepLook({ overlooked, tookMs: nowMs - startedMs, nowMs });
    };
    try {
      const outlook = await readOutlook(database, names, queues, seenUpTo);
      end(outlook.overlooked);
      if (outlook.overlooked.length > 0) this.wake();
      return outlook;
    } catch (error) {
      end();
      outages.noticed(error, "claiming tasks");
      const all = { cursors: [], room: undefined, run: USUALLY_ASKED, prefetch: 0 };
      this.#failedClaims.note(error, { replicaId: this.#parts.replica.id, names, queues, ...all });
      await this.#failedClaims
        .setAside(this.#stopping.signal)
        .catch((again: unknown) => outages.noticed(again, "claiming tasks"));
      return undefined;
    }
  }

  #onAlarm(): void {
    this.#cursors.wantFullLook();
    this.#phase = "settling";
    this.#parts.onMore();
  }

  /** Looks for its own until that has succeeded; nothing is taken in the meantime. */
  #regain(isAfterFailure = false): Promise<void> {
    this.#regaining ??= this.#regainOnce(isAfterFailure).finally(() => {
      this.#regaining = undefined;
      this.#parts.onMore();
    });
    return this.#regaining;
  }

  async #regainOnce(isAfterFailure: boolean): Promise<void> {
    if (isAfterFailure) await this.#backoff.pause(this.#stopping.signal);
    while (this.#mayOwnUnknown && !this.#stopping.signal.aborted) {
      // What is on its way would look as if it were unknown.
      await this.#noneUnderWay();
      this.#mayOwnUnknown = false;
      try {
        await this.#adopt();
        await this.#failedClaims.setAside(this.#stopping.signal);
      } catch (error) {
        this.#mayOwnUnknown = true;
        this.#parts.outages.noticed(error, "claiming tasks");
        await this.#backoff.pause(this.#stopping.signal);
      }
    }
  }

  async #adopt(): Promise<void> {
    const { database, replica, known, received, onAdopted, onForgotten, outages, steadyNow } = this.#parts;
    const asked = { under: replica.id, atMs: steadyNow() };
    const neverBegun = received.neverBegun();
    const unknown = await adoptClaims(database, asked.under, known());
    const { unbegun: adopted, forgotten } = await tellApart(database, unknown, received);
    received.settle(adopted, neverBegun);
    if (adopted.length > 0) onAdopted(adopted, asked);
    // Nobody waits for this, because somebody may keep one of them locked. What is left then is found again by the claim watch.
    if (forgotten.length > 0 && !this.#endingForgotten) {
      this.#endingForgotten = onForgotten(forgotten, asked.under)
        .catch((error: unknown) => outages.noticed(error, "claiming tasks"))
        .finally(() => {
          this.#endingForgotten = undefined;
        });
    }
  }
}
