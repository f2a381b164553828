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
/** What was only held up may be free again at any moment. */
const LONGEST_WAIT_MS = 5_000;
/** What is held up this often in a row is not held up for a moment. */
const HELD_UP_FOR_LONG = 4;
/** Another process may have left an alert about what has been done since. */
const SETTLE_EVERY_MS = 60_000;

export interface PassedByParts {
  readonly database: Database;
  readonly events: Events;
  /** What is held up: it is tried again the next time, and no alert is worth it as long as that does not last. */
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

  /** `isUsual`: it may be held up once without anything being wrong, and is told of from the second time on. */
  async tell(what: string, error: unknown, { isUsual = false } = {}): Promise<void> {
    if (isAway(error)) throw error;
    const times = (this.#known.get(what)?.times ?? 0) + 1;
    this.#known.set(what, { times, restsUntilMs: performance.now() + restMs(times, isHeldUp(error)), wasMet: true });
    if (isHeldUp(error) && times === (isUsual ? 2 : 1)) return this.#parts.onError(error);
    if (times !== (isHeldUp(error) ? HELD_UP_FOR_LONG : 1)) return;
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

function restMs(times: number, isOnlyHeldUp: boolean): number {
  if (!isOnlyHeldUp) return Math.min(FIRST_REST_MS * 2 ** Math.min(times - 1, 10), LONGEST_REST_MS);
  return times === 1 ? 0 : Math.min(FIRST_REST_MS * (times - 1), LONGEST_WAIT_MS);
}
