/**
 * What one part of a service that goes over many things could not do, and went past. Each is told of once, with an alert that is open until
 * it could be done or is gone; and is left alone for a moment, the longer the more often it failed, so that it is not all that the service does.
 *
 * Each part has its own, because not every part is done in every round: only a part that was gone through says what is done or gone.
 */
import type { Database } from "../database/database.ts";
import { inHalves } from "../database/in-halves.ts";
import { isAboutSomeRows, isAway, isHeldUp } from "../database/transient.ts";
import type { Events } from "../events.ts";
import { THE_REST } from "../sql/alert-causes.ts";
import { raiseAlert, raiseAlertUpTo, resolveOtherAlerts } from "../sql/alerts.ts";
import { toErrorRecord } from "../task/error-record.ts";

const FIRST_REST_MS = 1_000;
const LONGEST_REST_MS = 30_000;
/** What was only held up may be free again at any moment. */
const LONGEST_WAIT_MS = 5_000;
/** What is held up this often in a row is not held up for a moment. */
const HELD_UP_FOR_LONG = 4;
/** Of what there may be very many: so many have an alert of their own, and one stands for the rest. */
const MOST_ALERTS = 20;
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
  isTold: boolean;
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
    for (const one of this.#due(all, whatOf)) await this.attempt(whatOf(one), () => act(one));
    return !all.some((one) => this.#known.get(whatOf(one))?.wasMet);
  }

  /**
   * How many are passed by, as far as is known now. Whoever reads only so many at a time reads this many more: those that fail over and over
   * may be the first, and the others must be reached all the same.
   */
  get count(): number {
    return this.#known.size;
  }

  /** Does it with all that are due. Where that fails because of some of them, those are told of and passed by. Returns what was done. */
  async inHalves<T, R>(
    all: readonly T[],
    whatOf: (one: T) => string,
    act: (part: readonly T[]) => Promise<readonly R[]>,
    isAboutSome: (error: unknown) => boolean = isAboutSomeRows,
  ): Promise<readonly R[]> {
    const passBy = async (one: T, error: unknown) => {
      await this.tell(whatOf(one), error);
      return [];
    };
    return inHalves(this.#due(all, whatOf), act, passBy, isAboutSome);
  }

  /** `isUsual`: it may be held up once without anything being wrong, and is told of from the second time on. */
  async tell(what: string, error: unknown, { isUsual = false } = {}): Promise<void> {
    if (isAway(error)) throw error;
    const { times: before, isTold } = this.#known.get(what) ?? { times: 0, isTold: false };
    const times = before + 1;
    const isToTell = !isHeldUp(error) || times >= HELD_UP_FOR_LONG;
    const restsUntilMs = performance.now() + restMs(times, isHeldUp(error));
    this.#known.set(what, { times, isTold: isTold || isToTell, restsUntilMs, wasMet: true });
    if (isHeldUp(error) && times === (isUsual ? 2 : 1)) return this.#parts.onError(error);
    if (isToTell) await this.#tell(what, error, isTold);
  }

  /**
   * The same of something that this object does not keep in mind, because there may be very many: the database does.
   * `countTimes` writes down that it failed, and returns how often it did.
   */
  async tellOf(what: string, error: unknown, countTimes: () => Promise<number>): Promise<void> {
    if (isAway(error)) throw error;
    const times = await countTimes().catch((refusal: unknown) => {
      if (isAway(refusal)) throw refusal;
      this.#parts.onError(refusal);
      return 1;
    });
    if (!isHeldUp(error) || times >= HELD_UP_FOR_LONG) return this.#tell(what, error, times > 1, MOST_ALERTS);
    if (times === 1) this.#parts.onError(error);
  }

  async #tell(what: string, error: unknown, isTold: boolean, most = Number.POSITIVE_INFINITY): Promise<void> {
    // Each time, because an alert leaves the record when it is old: while it is open, this changes nothing.
    const isNew = await this.#raiseAlert(what, error, most);
    if (isNew ?? !isTold) this.#parts.events.emit(`${this.#of.service}.passed-by`, { what, error });
  }

  /** Undefined: it could not be written, which must not stop the service either. */
  async #raiseAlert(what: string, error: unknown, most: number): Promise<boolean | undefined> {
    const { database } = this.#parts;
    const { service, part } = this.#of;
    const { code, message } = toErrorRecord(error, "ERROR");
    const about = { kind: this.#alertKind, part, details: { code, message } };
    const alert = { ...about, subject: what, message: `The ${service} passed this by: ${what} failed. ${message}` };
    const rest = `The ${service} passes by more than ${most} things of this kind. The last of them: ${what} failed. ${message}`;
    try {
      if (most === Number.POSITIVE_INFINITY) return await raiseAlert(database, alert);
      return await raiseAlertUpTo(database, most, alert, { ...about, subject: THE_REST, message: rest });
    } catch (refusal) {
      if (isAway(refusal)) throw refusal;
      this.#parts.onError(refusal);
      return undefined;
    }
  }

  /** What there was no time to try: whether it has been done is not known, so it stays told of. */
  leave(what: string): void {
    const known = this.#known.get(what);
    if (known) known.wasMet = true;
  }

  /** When the part was gone through: what was not met again has been done, or is gone. */
  async settle(): Promise<void> {
    let isToSettle = performance.now() - this.#settledAtMs >= SETTLE_EVERY_MS;
    for (const [what, known] of this.#known) {
      if (!known.wasMet) isToSettle = this.#known.delete(what);
      known.wasMet = false;
    }
    if (isToSettle) await this.#resolveOthers();
  }

  /** An alert that cannot be resolved must not stop the service. It is tried again after a while. */
  async #resolveOthers(): Promise<void> {
    this.#settledAtMs = performance.now();
    const { database, onError } = this.#parts;
    const { part } = this.#of;
    try {
      await resolveOtherAlerts(database, { kind: this.#alertKind, part, subjects: [...this.#known.keys()] });
    } catch (refusal) {
      if (isAway(refusal)) throw refusal;
      onError(refusal);
    }
  }

  /** When all of the part was done. */
  async settleAll(): Promise<void> {
    for (const known of this.#known.values()) known.wasMet = false;
    await this.settle();
  }

  /** Those that did not fail a moment ago; first those that have not failed at all. */
  #due<T>(all: readonly T[], whatOf: (one: T) => string): T[] {
    const due = all.filter((one) => !this.#isResting(whatOf(one)));
    const hasFailed = (one: T) => this.#known.has(whatOf(one));
    return [...due.filter((one) => !hasFailed(one)), ...due.filter(hasFailed)];
  }

  #isResting(what: string): boolean {
    const known = this.#known.get(what);
    if (!known || performance.now() >= known.restsUntilMs) return false;
    known.wasMet = true;
    return true;
  }

  get #alertKind(): `${PartOfService["service"]}-passed-by` {
    return `${this.#of.service}-passed-by`;
  }
}

function restMs(times: number, isOnlyHeldUp: boolean): number {
  if (!isOnlyHeldUp) return Math.min(FIRST_REST_MS * 2 ** Math.min(times - 1, 10), LONGEST_REST_MS);
  return times === 1 ? 0 : Math.min(FIRST_REST_MS * (times - 1), LONGEST_WAIT_MS);
}
