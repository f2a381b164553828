/**
 * Where to begin searching each lane. Starting behind what was claimed last spares the search all the dead entries before it, and
 * all tasks that wait there for a worker that knows them. What was committed late, or sorts earlier for another reason, is found by
 * two kinds of looks further back, each rationed by its own cost:
 *
 *   full look   a search of all lanes from where everything had been seen by the last of its kind. It takes a twentieth of the time at
 *               the most; half of it while there is nothing else to do, when a task that was committed late may be
 *               waiting for nothing but the look.
 *   deep look   asks what was overlooked before that, in a statement beside the searches, since it may have to walk over everything.
 */
import type { LaneCursor } from "../sql/claims.ts";
import type { Found } from "../sql/work-round.ts";

/** How many lanes to remember: beyond, each has so little traffic that walking over its dead entries costs less than naming it. */
const MOST_LANES = 32;
const LEAST_MS = 20;
const PAUSE_PER_LOOK = { busy: 20, idle: 1 };
const DEEP = { leastMs: 1_000, pausePerLook: 50 };
/** A search reports a time that is earlier than what it has seen by this much (`c_lag` in claim_tasks.sql), because tasks may be committed late. */
export const LAG_MS = 2_000;

export interface Search {
  readonly cursors: readonly LaneCursor[];
  /** Where the others begin; undefined: at the beginning. */
  readonly seenUpTo: string | undefined;
  readonly lastLaneId: string | undefined;
  readonly isFullLook: boolean;
  /** Of the cursors, those from a deep look. */
  readonly overlooked: readonly LaneCursor[];
  /** What is forgotten while a search is under way does not come back with its reply. */
  readonly memory: number;
}

export class SearchCursors {
  readonly #cursors = new Map<string, { cursor: LaneCursor; sinceMs: number }>();
  /** From where the next search is to begin in these lanes. */
  #overlooked: LaneCursor[] = [];
  #seenUpTo: string | undefined;
  #lastLaneId: string | undefined;
  #memory = 0;
  #fullLook = { endedMs: Number.NEGATIVE_INFINITY, tookMs: 0 };
  #isFullLookWanted = false;
  #deepLook = { endedMs: Number.NEGATIVE_INFINITY, tookMs: 0 };
  #isDeepLookWanted = false;
  #isDeepLooking = false;
  #isIdle = false;
  /** The last search was cut short in some lane, and the next goes on there. Until the end is reached no full look begins again at the beginning. */
  #isOnTheWay = false;

  begin(nowMs: number): Search {
    const isFullLook = this.isFullLookDue(nowMs);
    // Cleared at the beginning: what is put in while the search is under way may need another.
    if (isFullLook) this.#isFullLookWanted = false;
    const left = this.whereLeft();
    const overlooked = this.#overlooked.splice(0);
    const lanes = new Set(overlooked.map(({ laneId }) => laneId));
    const others = isFullLook ? [] : left.cursors.filter(({ laneId }) => !lanes.has(laneId));
    return { ...left, cursors: [...others, ...overlooked], overlooked, isFullLook };
  }

  /** A search that goes on where the last one ended. It is never a full look. */
  whereLeft(): Search {
    return {
      cursors: [...this.#cursors.values()].map(({ cursor }) => cursor),
      seenUpTo: this.#seenUpTo,
      lastLaneId: this.#lastLaneId,
      isFullLook: false,
      overlooked: [],
      memory: this.#memory,
    };
  }

  end(search: Search, look: Found & { asked: number; hasMet: boolean; tookMs: number; nowMs: number }): void {
    const { claimed, cursors, seenUpTo, nowMs, tookMs } = look;
    this.#isIdle = claimed.length === 0 && !look.hasMet;
    if (search.isFullLook) this.#fullLook = { endedMs: nowMs, tookMs };
    // What goes on where a full look was cut short is a part of it, and counts as its cost.
    else if (this.#isOnTheWay) this.#fullLook = { endedMs: nowMs, tookMs: this.#fullLook.tookMs + tookMs };
    this.#isOnTheWay = look.isCutShort;
    // While tasks flow there may be some before the cursors. A search that finds nothing is no reason to look again.
    if (search.isFullLook ? claimed.length >= look.asked : claimed.length > 0) this.wantFullLook();
    if (search.memory !== this.#memory) return;
    if (search.isFullLook && seenUpTo !== undefined) {
      this.#seenUpTo = seenUpTo;
      this.#forgetUntil(nowMs - tookMs - LAG_MS);
    }
    for (const cursor of cursors) this.#remember(cursor, nowMs);
    if (claimed.length >= look.asked) this.#keepUnreached(search.overlooked, cursors);
    this.#lastLaneId = cursors.at(-1)?.laneId ?? this.#lastLaneId;
  }

  #remember(cursor: LaneCursor, sinceMs: number): void {
    this.#cursors.delete(cursor.laneId);
    this.#cursors.set(cursor.laneId, { cursor, sinceMs });
    const [oldest] = this.#cursors.keys();
    if (this.#cursors.size > MOST_LANES && oldest !== undefined) this.#cursors.delete(oldest);
  }

  /** The search was full before it came to all lanes in which something was overlooked: the next one begins there as well. */
  #keepUnreached(overlooked: readonly LaneCursor[], reached: readonly LaneCursor[]): void {
    const lanes = new Set(reached.map(({ laneId }) => laneId));
    this.#overlooked.push(...overlooked.filter(({ laneId }) => !lanes.has(laneId)));
  }

  /** Drops the cursors that lie before the time up to which everything has been seen. */
  #forgetUntil(untilMs: number): void {
    for (const [laneId, { sinceMs }] of this.#cursors) if (sinceMs < untilMs) this.#cursors.delete(laneId);
  }

  /** There may be something before the cursors. */
  wantFullLook(): void {
    this.#isFullLookWanted = true;
    this.#isDeepLookWanted = true;
  }

  isFullLookDue(nowMs: number): boolean {
    return this.#cursors.size === 0 || this.msUntilFullLook(nowMs) === 0;
  }

  /** How long until the next full look; undefined where none is wanted. */
  msUntilFullLook(nowMs: number): number | undefined {
    if (!this.#isFullLookWanted || this.#isOnTheWay) return undefined;
    const pauseMs = this.#fullLook.tookMs * PAUSE_PER_LOOK[this.#isIdle ? "idle" : "busy"];
    return Math.max(0, this.#fullLook.endedMs + Math.max(LEAST_MS, pauseMs) - nowMs);
  }

  /** How long until the next deep look; undefined where none is wanted, one is under way, or full looks go as deep. */
  msUntilDeepLook(nowMs: number): number | undefined {
    if (!this.#isDeepLookWanted || this.#isDeepLooking || this.#seenUpTo === undefined) return undefined;
    const { endedMs, tookMs } = this.#deepLook;
    return Math.max(0, endedMs + Math.max(DEEP.leastMs, tookMs * DEEP.pausePerLook) - nowMs);
  }

  /** Before when to look for what was overlooked; undefined where it is not yet time for that. */
  beginDeepLook(nowMs: number): string | undefined {
    if (this.msUntilDeepLook(nowMs) !== 0) return undefined;
    this.#isDeepLookWanted = false;
    this.#isDeepLooking = true;
    return this.#seenUpTo;
  }

  /** `overlooked`: undefined where the look failed. Then another is wanted. */
  endDeepLook(look: { overlooked: readonly LaneCursor[] | undefined; tookMs: number; nowMs: number }): void {
    this.#deepLook = { endedMs: look.nowMs, tookMs: look.tookMs };
    this.#isDeepLooking = false;
    if (look.overlooked) this.#overlooked = [...look.overlooked];
    else this.#isDeepLookWanted = true;
  }

  /** The next search begins where this one did. */
  repeat({ isFullLook }: Search): void {
    if (isFullLook) this.#cursors.clear();
  }

  /** Something was put in that sorts before everything, or more names are known now. */
  forget(): void {
    this.#cursors.clear();
    this.#seenUpTo = undefined;
    this.#memory++;
  }
}
