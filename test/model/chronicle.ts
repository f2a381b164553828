/** Keeps the model's time and writes down what happens in it. */
import type { Database } from "../../src/database/database.ts";
import { timeMover } from "./move-time.ts";
import { readClockMs, readPlaces } from "./read-record.ts";
import type { Happening, Window } from "./record.ts";

export class Chronicle {
  readonly database: Database;
  readonly history: (Window & Happening)[] = [];
  readonly #move: (ms: number) => Promise<void>;
  readonly #untimed: Happening[] = [];
  #movedMs = 0;
  #now: number;

  private constructor(database: Database, move: (ms: number) => Promise<void>, now: number) {
    this.database = database;
    this.#move = move;
    this.#now = now;
  }

  static async begin(database: Database): Promise<Chronicle> {
    return new Chronicle(database, await timeMover(database), await readClockMs(database));
  }

  /** By the database's clock, as it was when last looked at. */
  get now(): number {
    return this.#now;
  }

  get movedMs(): number {
    return this.#movedMs;
  }

  /** Does something, and notes what came of it. */
  async during<T>(work: () => Promise<T>, tell: (result: T) => Happening | readonly Happening[]): Promise<T> {
    const result = await work();
    const told = tell(result);
    this.#untimed.push(...(Array.isArray(told) ? (told as Happening[]) : [told as Happening]));
    return result;
  }

  /** Everything since the last look at the clock happened between then and now. */
  async settle(): Promise<void> {
    this.#settleAt(await readClockMs(this.database));
  }

  async pass(ms: number): Promise<void> {
    await this.settle();
    await this.#move(ms);
    this.#movedMs += ms;
    this.#now += ms;
  }

  async look(): Promise<void> {
    const { clockMs, places } = await readPlaces(this.database);
    this.#untimed.push({ kind: "looked", places });
    this.#settleAt(clockMs);
  }

  #settleAt(clockMs: number): void {
    const window = { from: this.#now, to: clockMs + this.#movedMs };
    this.history.push(...this.#untimed.splice(0).map((happening) => ({ ...window, ...happening })));
    this.#now = window.to;
  }
}
