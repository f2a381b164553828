/**
 * What a service that goes over many things could not do, and went past. Each is told of once, with an alert that stays open until it could be
 * done or is gone; and is left alone for a moment, the longer the more often it failed, so that it is not all that the service does.
 */
import type { Database } from "../database/database.ts";
import { isAway, isHeldUp } from "../database/transient.ts";
import type { Events } from "../events.ts";
import { raiseAlert, resolveOtherAlerts } from "../sql/recovery.ts";
import { toErrorRecord } from "../task/error-record.ts";

const FIRST_REST_MS = 1_000;
const LONGEST_REST_MS = 30_000;

export interface PassedByParts {
  readonly database: Database;
  readonly events: Events;
  /** What is held up for a moment: it is tried again the next time, and no alert is worth it. */
  readonly onError: (error: unknown) => void;
}

interface Known {
  times: number;
  restsUntilMs: number;
  /** In this round. */
  wasMet: boolean;
}

export class PassedBy {
  readonly #parts: PassedByParts;
  readonly #service: "sweep" | "upkeep";
  readonly #known = new Map<string, Known>();
  /** Others may have left alerts about what has been done since. */
  #isToSettle = true;

  constructor(service: "sweep" | "upkeep", parts: PassedByParts) {
    this.#service = service;
    this.#parts = parts;
  }

  /** Does it. What fails is told of and passed by, unless the database is away, which says nothing about it. */
  async attempt<T>(what: string, act: () => Promise<T>): Promise<T | undefined> {
    try {
      return await act();
    } catch (error) {
      await this.tell(what, error);
      return undefined;
    }
  }

  /** The same with each of them, but for those that failed a moment ago. */
  async each<T>(all: readonly T[], whatOf: (one: T) => string, act: (one: T) => Promise<void>): Promise<void> {
    for (const one of all) if (!this.isResting(whatOf(one))) await this.attempt(whatOf(one), () => act(one));
  }

  /** In this round. */
  get hasMetAny(): boolean {
    return [...this.#known.values()].some(({ wasMet }) => wasMet);
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
      ...{ kind: this.#alertKind, subject: what, details: { code, message } },
      message: `The ${this.#service} passed this by: ${what} failed. ${message}`,
    });
    if (isNew) events.emit(`${this.#service}.passed-by`, { what, error });
  }

  /** After each round: what was not met again has been done, or is gone. */
  async settle(): Promise<void> {
    for (const [what, known] of this.#known) {
      if (!known.wasMet) this.#isToSettle = this.#known.delete(what);
      known.wasMet = false;
    }
    if (!this.#isToSettle) return;
    await resolveOtherAlerts(this.#parts.database, this.#alertKind, [...this.#known.keys()]);
    this.#isToSettle = false;
  }

  get #alertKind(): string {
    return `${this.#service}-passed-by`;
  }
}
