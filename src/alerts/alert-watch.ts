/**
 * Tells this process of every alert that is raised or resolved anywhere, where somebody listens for that: by the events `alert.raised` and
 * `alert.resolved`. A notice names the change. Notices may be missed, so it also looks for itself: when the connection is back, and from time to time.
 */
import { type AlertChange, changeId } from "../alert-kinds.ts";
import type { Database } from "../database/database.ts";
import type { Notices } from "../database/notices.ts";
import type { Events } from "../events.ts";
import { SERVICES } from "../services/list.ts";
import { createNoticedService } from "../services/noticed-service.ts";
import type { Service, ServiceRun } from "../services/service.ts";
import { type ChangedAlert, type ChangesAsked, readAlertChanges } from "../sql/alerts.ts";
import { readClock } from "../sql/clock.ts";

/** A change is dated by the beginning of its transaction, and seen at its end. */
const COMMITTED_WITHIN_MS = 600_000;
const LONGEST_AWAY_MS = 365 * 86_400_000;
/** Read by one statement. */
const AT_ONCE_MOST = 1_000;
/** A look finds what is not named all the same, unless its transaction took very long. */
const NAMED_MOST = 100_000;

export interface AlertWatchParts {
  readonly database: Database;
  readonly notices: Notices;
  readonly events: Events;
}

export class AlertWatch {
  readonly name = "alert watch";
  readonly #parts: AlertWatchParts;
  readonly #service: Service;
  /** What notices have named, and was not read yet. */
  #named: { id: string; change: AlertChange }[] = [];
  /** What was told, and when it was last read, so that nothing is told twice. What is dated ahead is read until the clock has come that far again. */
  readonly #told = new Map<string, number>();
  /** Since when somebody listens, by this process's own clock, and by the database's. */
  #heardFrom: { readonly ms: number; date: Date | undefined } | undefined;
  /** By its own clock. */
  #lookedAtMs = Number.NEGATIVE_INFINITY;

  constructor(parts: AlertWatchParts) {
    this.#parts = parts;
    this.#service = createNoticedService({
      ...{ name: "alert watch", intervalMs: SERVICES["alert watch"].everyMs },
      ...{ notices: parts.notices, word: "alert", onNotice: (change) => this.#onNotice(change) },
      runOnce: () => this.lookOnce(),
      // The next look reads what this one would have.
      onError: () => {},
    });
  }

  get lastRun(): ServiceRun | undefined {
    return this.#service.lastRun;
  }

  /** Somebody has subscribed, or may have. What happens from now on is told. */
  start(): void {
    if (!this.#isHeard) return;
    this.#heardFrom ??= { ms: performance.now(), date: undefined };
    this.#service.start();
  }

  stop(): Promise<void> {
    return this.#service.stop();
  }

  async lookOnce(): Promise<void> {
    if (!this.#isHeard) this.#heardFrom = undefined;
    const { events } = this.#parts;
    const heardFrom = this.#heardFrom;
    if (!heardFrom) return;
    const isFirst = heardFrom.date === undefined;
    heardFrom.date ??= await this.#dateOf(heardFrom.ms);
    const nowMs = performance.now();
    const withinMs = Math.min(nowMs - this.#lookedAtMs + COMMITTED_WITHIN_MS, LONGEST_AWAY_MS);
    const asked = { withinMs, since: heardFrom.date, named: [...this.#named] };
    for (let page = await this.#read(asked); page.length > 0; page = await this.#read(asked, page.at(-1))) {
      for (const { alert, change, isAhead } of page) {
        const key = changeId({ alert, change });
        const isTold = this.#told.has(key);
        this.#told.set(key, nowMs);
        // What was dated ahead before anybody listened here.
        const isOlder = isFirst && isAhead && !asked.named.some((one) => one.id === alert.id && one.change === change);
        if (!isTold && !isOlder) events.emit(`alert.${change}`, alert);
      }
      if (page.length < AT_ONCE_MOST) break;
    }
    this.#named = this.#named.slice(asked.named.length);
    this.#lookedAtMs = nowMs;
    for (const [key, toldAtMs] of this.#told) if (toldAtMs < nowMs - withinMs) this.#told.delete(key);
  }

  #read(asked: Pick<ChangesAsked, "withinMs" | "since" | "named">, after?: ChangedAlert): Promise<ChangedAlert[]> {
    return readAlertChanges(this.#parts.database, { ...asked, after, limit: AT_ONCE_MOST });
  }

  /** Rather a moment too early: nothing that came after it is to be missed. The first statement may have to wait for a connection. */
  async #dateOf(ms: number): Promise<Date> {
    const { database } = this.#parts;
    await readClock(database);
    const clock = await readClock(database);
    return new Date(clock.getTime() - (performance.now() - ms));
  }

  #onNotice(text: string): boolean {
    const [id = "", change] = text.split(" ");
    if (this.#isHeard && (change === "raised" || change === "resolved") && this.#named.length < NAMED_MOST)
      this.#named.push({ id, change });
    return this.#isHeard;
  }

  get #isHeard(): boolean {
    const { events } = this.#parts;
    return events.isHeard("alert.raised") || events.isHeard("alert.resolved");
  }
}
