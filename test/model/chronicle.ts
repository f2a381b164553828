/** Keeps the model's time and writes down what happens in it. */
import type { Database } from "../../src/database/database.ts";
import { timeMover } from "./move-time.ts";
import { readClockMs, readPlaces } from "./read-record.ts";
import type { Happening, Window } from "./record.ts";

export class Chronicle {
  readonly database: Database;
  readonly history: (Window & Happening)[] = [];
  readonly #move: (ms: number) => Promise<void>;
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

  /** By the database's clock, as of the last thing that happened. */
  get now(): number {
    return this.#now;
  }

  get movedMs(): number {
    return this.#movedMs;
  }

  /** Does something, and notes what came of it with the time in which it was done. */
  async during<T>(work: () => Promise<T>, tell: (result: T) => Happening | readonly Happening[]): Promise<T> {
    const from = this.#now;
    const result = await work();
    this.#now = (await readClockMs(this.database)) + this.#movedMs;
    const told = tell(result);
    for (const happening of Array.isArray(told) ? (told as Happening[]) : [told as Happening]) {
      this.history.push({ from, to: this.#now, ...happening });
    }
    return result;
  }

  async pass(ms: number): Promise<void> {
    await this.#move(ms);
    this.#movedMs += ms;
    this.#now += ms;
  }

  async look(): Promise<void> {
    await this.during(
      () => readPlaces(this.database),
      (places) => ({ kind: "looked", places }),
    );
  }
}
