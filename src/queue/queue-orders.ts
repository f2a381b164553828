/** Queues: how full they are, and their settings, which hold for every replica at once. */
import { checkOptions, isInteger, orNull } from "../config/checks.ts";
import type { Duration } from "../config/duration.ts";
import { Problems } from "../config/problems.ts";
import type { Database } from "../database/database.ts";
import { changeQueue, listQueues, type QueueRow, type QueueSettings } from "../sql/queues.ts";
import { isName } from "../task/settings.ts";
import { isRateLimit } from "./rate-limit.ts";

export interface QueueOptions {
  /** How many tasks of this queue run at once in the whole cluster; null for any number. */
  concurrency?: number | null | undefined;
  /** A budget of `limit` starts, earned back evenly over `per`; null for any number. */
  rateLimit?: { limit: number; per: Duration } | null | undefined;
}

export const QUEUE_RULES = {
  concurrency: orNull(isInteger({ min: 0, max: 1_000_000 })),
  rateLimit: orNull(isRateLimit),
};

export function checkQueue(name: string, options: QueueOptions): QueueSettings {
  const problems = new Problems();
  const { concurrency, rateLimit } = checkOptions(options, QUEUE_RULES, { path: "", problems });
  problems.throwIfAny(`The settings of queue ${JSON.stringify(name)}`);
  return { concurrency, rateLimit };
}

export class QueueOrders {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  list(): Promise<readonly QueueRow[]> {
    return listQueues(this.#database);
  }

  /** No task of this queue is started until it is resumed. What is running goes on. */
  async pause(name: string): Promise<void> {
    await this.#change(name, { isPaused: true });
  }

  async resume(name: string): Promise<void> {
    await this.#change(name, { isPaused: false });
  }

  async set(name: string, options: QueueOptions): Promise<void> {
    await this.#change(name, checkQueue(name, options));
  }

  async #change(name: string, settings: QueueSettings): Promise<void> {
    const problems = new Problems();
    isName(name, "name", problems);
    problems.throwIfAny("The queue");
    await changeQueue(this.#database, name, settings);
  }
}
