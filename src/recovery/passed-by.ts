/**
 * What one part of a service that goes over many things could not do, and went past. Each is told of once, with an alert that stays open until
 * it could be done or is gone; and is left alone for a moment, the longer the more often it failed, so that it is not all that the service does.
 *
 * Each part has its own, because not every part is done in every round: only a part that was gone through says what is done or gone.
 */
import type { Database } from "../database/database.ts";
import { isAway, isHeldUp } from "../database/transient.ts";
import type { Events } from "../events.ts";
import { raiseAlert, resolveOtherAlerts } from "../sql/alerts.ts";
import { toErrorRecord } from "../task/error-record.ts";

const FIRST_REST_MS = 1_000;
const LONGEST_REST_MS = 30_000;
/** Another process may have left an alert about what has been done since. */
const SETTLE_EVERY_MS = 60_000;

export interface PassedByParts {
  readonly database: Database;
  readonly events: Events;
  /** What is held up for a moment: it is tried again the next time, and no alert is worth it. */
  readonly onError: (error: unknown) => void;
}

interface Known {
  times: number;
  restsUntilMs: number;
  /** Since the part was gone through last. */
  wasMet: boolean;
}

export interface PartOfService {
  readonly service: "sweep" | "upkeep";
  readonly part: string;
}

export class PassedBy {
  readonly #parts: PassedByParts;
  readonly #of: PartOfService;
  readonly #known = new Map<string, Known>();
  #settledAtMs = Number.NEGATIVE_INFINITY;

  constructor(of: PartOfService, parts: PassedByParts) {
    this.#of = of;
    this.#parts = parts;
  }

  /** Does it. What fails is told of and passed by, unless the database is away, which says nothing about it. */
  async attempt<T>(what: string, act: () => Promise<T>): Promise<T | undefined> {
    const known = this.#known.get(what);
    if (known) known.wasMet = false;
    try {
      return await act();
    } catch (error) {
      await this.tell(what, error);
      return undefined;
    }
  }

  /** The same with each of them, but for those that failed a moment ago. True: it was done with all of them. */
  async each<T>(all: readonly T[], whatOf: (one: T) => string, act: (one: T) => Promise<void>): Promise<boolean> {
    for (const one of all) if (!this.isResting(whatOf(one))) await this.attempt(whatOf(one), () => act(one));
    return !all.some((one) => this.#known.get(whatOf(one))?.wasMet);
  }

  /** As far as is known now. */
  get isAllDone(): boolean {
    return this.#known.size === 0;
  }

  isResting(what: string): boolean {
    const known = this.#known.get(what);
    if (!known || performance.now() >= known.restsUntilMs) return false;
    known.wasMet = true;
    return true;
  }

  async tell(what: string, error: unknown): Promise<void> {
    if (isAway(error)) throw error;
    if (isHeldUp(error)) return this.#parts.onError(error);
    const times = (this.#known.get(what)?.times ?? 0) + 1;
    const restMs = Math.min(FIRST_REST_MS * 2 ** Math.min(times - 1, 10), LONGEST_REST_MS);
    this.#known.set(what, { times, restsUntilMs: performance.now() + restMs, wasMet: true });
    if (times > 1) return;
    const { database, events } = this.#parts;
    const { code, message } = toErrorRecord(error, "ERROR");
    const isNew = await raiseAlert(database, {
      ...{ kind: this.#alertKind, subject: what, details: { part: this.#of.part, code, message } },
      message: `The ${this.#of.service} passed this by: ${what} failed. ${message}`,
    });
    if (isNew) events.emit(`${this.#of.service}.passed-by`, { what, error });
  }

  /** When the part was gone through: what was not met again has been done, or is gone. */
  async settle(): Promise<void> {
    let isToSettle = performance.now() - this.#settledAtMs >= SETTLE_EVERY_MS;
    for (const [what, known] of this.#known) {
      if (!known.wasMet) isToSettle = this.#known.delete(what);
      known.wasMet = false;
    }
    if (!isToSettle) return;
    const { part } = this.#of;
    await resolveOtherAlerts(this.#parts.database, { kind: this.#alertKind, part, subjects: [...this.#known.keys()] });
    this.#settledAtMs = performance.now();
  }

  /** When all of the part was done. */
  async settleAll(): Promise<void> {
    for (const known of this.#known.values()) known.wasMet = false;
    await this.settle();
  }

  get #alertKind(): string {
    return `${this.#of.service}-passed-by`;
  }
}
