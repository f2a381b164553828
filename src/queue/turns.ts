/**
 * What has to wait for a lock of somebody else's transaction, for however long, waits in turns: a few at a time ask the database, each for a
 * moment, and the others wait in memory. So they take no more than that of the connections, and whose lock is free has it soon.
 */
import { ClosedError } from "../database/errors.ts";
import { isLocked } from "../database/transient.ts";

export interface TurnsOptions {
  readonly atOnce: number;
  /** How long somebody asks in one turn while others wait for theirs: the less, the more there are. In vain, each turn is a line in the server's log. */
  readonly patienceMs: { readonly shortest: number; readonly longest: number };
  /** Within this time everybody should have had a turn, if that is possible. */
  readonly everybodyWithinMs: number;
  /** How long somebody asks while nobody waits. */
  readonly lonelyPatienceMs: number;
}

export class Turns {
  readonly #options: TurnsOptions;
  #underWay = 0;
  readonly #waiting: { resolve: () => void; reject: (error: unknown) => void }[] = [];
  #isClosed = false;

  constructor(options: TurnsOptions) {
    this.#options = options;
  }

  /** Whoever waits in line is refused at once, and who has a turn when that is over. */
  close(): void {
    this.#isClosed = true;
    for (const { reject } of this.#waiting.splice(0)) reject(new ClosedError());
  }

  /** Tries until nothing is locked. Whoever has tried in vain goes to the end of the line. */
  async untilFree<T>(attempt: (patienceMs: number) => Promise<T>): Promise<T> {
    for (;;) {
      await this.#begin();
      try {
        return await attempt(this.#patienceMs);
      } catch (error) {
        if (!isLocked(error)) throw error;
      } finally {
        this.#end();
      }
    }
  }

  get #patienceMs(): number {
    const { atOnce, patienceMs, everybodyWithinMs, lonelyPatienceMs } = this.#options;
    if (this.#waiting.length === 0) return lonelyPatienceMs;
    const share = (everybodyWithinMs * atOnce) / (this.#waiting.length + atOnce);
    return Math.ceil(Math.min(Math.max(share, patienceMs.shortest), patienceMs.longest));
  }

  async #begin(): Promise<void> {
    if (this.#isClosed) throw new ClosedError();
    if (this.#underWay < this.#options.atOnce) this.#underWay++;
    else await new Promise<void>((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }

  /** The place goes to the next in line. */
  #end(): void {
    const next = this.#waiting.shift();
    if (next) next.resolve();
    else this.#underWay--;
  }
}
