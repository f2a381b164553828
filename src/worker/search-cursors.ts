/**
 * Where to begin searching each lane. Starting behind what was claimed last spares the search all the dead entries before
 * it; a full look from the beginning finds what was committed late or sorts earlier. Full looks are rationed by their own
 * cost, so that they take a twentieth of the time at the most, however long they have become; half of it while there is
 * nothing else to do, when a task that was committed late may be waiting for nothing but the look.
 */
import type { ClaimedTask, LaneCursor } from "../sql/claims.ts";

/** How many lanes to remember: beyond, each has so little traffic that walking over its dead entries costs less than naming it. */
const MOST_LANES = 32;
const LEAST_MS = 20;
const PAUSE_PER_LOOK = { busy: 20, idle: 1 };

export interface Search {
  readonly cursors: readonly LaneCursor[];
  readonly isFullLook: boolean;
}

export class SearchCursors {
  readonly #cursors = new Map<number, LaneCursor>();
  #fullLook = { endedMs: Number.NEGATIVE_INFINITY, tookMs: 0 };
  #isFullLookWanted = false;
  #isIdle = false;

  begin(nowMs: number): Search {
    const isFullLook = this.isFullLookDue(nowMs);
    // Cleared at the beginning: what is put in while the search is under way may need another.
    if (isFullLook) this.#isFullLookWanted = false;
    return { cursors: isFullLook ? [] : [...this.#cursors.values()], isFullLook };
  }

  /** Wherever that is, and never a full look in passing. */
  whereLeft(): Search {
    return { cursors: [...this.#cursors.values()], isFullLook: false };
  }

  end(
    search: Search,
    found: { asked: number; claimed: readonly ClaimedTask[]; hasMet: boolean; tookMs: number; nowMs: number },
  ): void {
    this.#isIdle = found.claimed.length === 0 && !found.hasMet;
    if (search.isFullLook) this.#fullLook = { endedMs: found.nowMs, tookMs: found.tookMs };
    // While tasks flow there may be some before the cursors. A search that finds nothing is no reason to look again.
    if (search.isFullLook ? found.claimed.length >= found.asked : found.claimed.length > 0) this.wantFullLook();
    for (const { laneId, runAt, taskId } of found.claimed) {
      if (laneId !== null && runAt !== null) this.#remember({ laneId, runAt, taskId });
    }
  }

  #remember(cursor: LaneCursor): void {
    this.#cursors.delete(cursor.laneId);
    this.#cursors.set(cursor.laneId, cursor);
    const [oldest] = this.#cursors.keys();
    if (this.#cursors.size > MOST_LANES && oldest !== undefined) this.#cursors.delete(oldest);
  }

  /** There may be something before the cursors. */
  wantFullLook(): void {
    this.#isFullLookWanted = true;
  }

  isFullLookDue(nowMs: number): boolean {
    return this.#cursors.size === 0 || this.msUntilFullLook(nowMs) === 0;
  }

  /** How long until the next full look; undefined where none is wanted. */
  msUntilFullLook(nowMs: number): number | undefined {
    if (!this.#isFullLookWanted) return undefined;
    const pauseMs = this.#fullLook.tookMs * PAUSE_PER_LOOK[this.#isIdle ? "idle" : "busy"];
    return Math.max(0, this.#fullLook.endedMs + Math.max(LEAST_MS, pauseMs) - nowMs);
  }

  /** Something was put in that sorts before the cursors. */
  forget(): void {
    this.#cursors.clear();
  }
}
