/**
 * Connections that stay open between statements. The one given back last is handed out first, at once and without a detour: at a
 * hundred tasks a second, what a general pool does around each statement was a thirtieth of the way from an enqueue to its start.
 */
import type pg from "pg";
import { endClient } from "./end-client.ts";
import { ClosedError, DatabaseUnavailableError, PoolExhaustedError } from "./errors.ts";

export interface PoolOptions {
  readonly max: number;
  /** `watch` is called with every connection that is tried, before it is made. */
  readonly connect: (watch: (client: pg.Client) => void) => Promise<pg.Client>;
  /** How long to wait for a connection while all are in use. */
  readonly waitMs: number;
  /** Unused for that long, a connection is closed. */
  readonly idleMs: number;
}

interface Idle {
  readonly client: pg.Client;
  readonly sinceMs: number;
}

interface Waiting {
  readonly resolve: (client: pg.Client) => void;
  readonly reject: (error: unknown) => void;
  readonly timer: NodeJS.Timeout;
}

export class Pool {
  readonly #options: PoolOptions;
  /** Those open, and those being opened. */
  #size = 0;
  #opening = 0;
  /** The last is the warmest. */
  #idle: Idle[] = [];
  #waiting: Waiting[] = [];
  readonly #broken = new WeakSet<pg.Client>();
  readonly #closing: Promise<void>[] = [];
  #idleTimer: NodeJS.Timeout | undefined;
  #isClosed = false;
  #onNoneLeft: (() => void)[] = [];

  constructor(options: PoolOptions) {
    this.#options = options;
  }

  acquire(): pg.Client | Promise<pg.Client> {
    if (this.#isClosed) throw new ClosedError();
    const warm = this.#idle.pop();
    if (warm) return warm.client;
    return this.#size < this.#options.max ? this.#open() : this.#wait();
  }

  release(client: pg.Client, isBroken: boolean): void {
    // In a transaction still: the end of it got no reply.
    if (isBroken || this.#isClosed || this.#broken.has(client) || client.getTransactionStatus() !== "I") {
      this.#drop(client);
      return;
    }
    const next = this.#takeWaiting();
    if (next) next.resolve(client);
    else {
      this.#idle.push({ client, sinceMs: performance.now() });
      this.#idleTimer ??= setTimeout(() => this.#closeIdle(), this.#options.idleMs).unref();
    }
  }

  /** Resolves when all are closed, those in use as soon as they are given back. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#idleTimer);
    for (let next = this.#takeWaiting(); next; next = this.#takeWaiting()) next.reject(new ClosedError());
    for (const { client } of this.#idle.splice(0)) this.#drop(client);
    if (this.#size > 0) await new Promise<void>((resolve) => this.#onNoneLeft.push(resolve));
    await Promise.all(this.#closing);
  }

  async #open(): Promise<pg.Client> {
    this.#size++;
    this.#opening++;
    try {
      return await this.#options.connect((client) => this.#watch(client));
    } catch (error) {
      this.#left();
      throw error;
    } finally {
      this.#opening--;
    }
  }

  /** From the very first moment: it may be ended as soon as it is made, and an error that nobody hears would end the process. */
  #watch(client: pg.Client): void {
    const onBroken = () => this.#onBroken(client);
    client.on("error", onBroken);
    client.on("end", onBroken);
  }

  #wait(): Promise<pg.Client> {
    const { max, waitMs } = this.#options;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting = this.#waiting.filter((waiting) => waiting.timer !== timer);
        const isReached = this.#size > this.#opening;
        const inVain = `none of ${max} connections could be made within ${waitMs} ms`;
        reject(isReached ? new PoolExhaustedError(max, waitMs) : new DatabaseUnavailableError([inVain]));
      }, waitMs);
      this.#waiting.push({ resolve, reject, timer });
    });
  }

  #takeWaiting(): Waiting | undefined {
    const next = this.#waiting.shift();
    clearTimeout(next?.timer);
    return next;
  }

  /** In use, it is dropped when it is given back. */
  #onBroken(client: pg.Client): void {
    this.#broken.add(client);
    const left = this.#idle.filter((idle) => idle.client !== client);
    if (left.length === this.#idle.length) return;
    this.#idle = left;
    this.#drop(client);
  }

  #drop(client: pg.Client): void {
    const ended = endClient(client);
    if (this.#isClosed) this.#closing.push(ended);
    this.#left();
  }

  /** There is room for another, and somebody may wait for it. */
  #left(): void {
    this.#size--;
    if (this.#size === 0) for (const resolve of this.#onNoneLeft.splice(0)) resolve();
    const next = this.#takeWaiting();
    if (next) this.#open().then(next.resolve, next.reject);
  }

  #closeIdle(): void {
    const { idleMs } = this.#options;
    const beforeMs = performance.now() - idleMs;
    const old = this.#idle.filter(({ sinceMs }) => sinceMs <= beforeMs);
    this.#idle = this.#idle.filter(({ sinceMs }) => sinceMs > beforeMs);
    for (const { client } of old) this.#drop(client);
    const [oldest] = this.#idle;
    const inMs = oldest && Math.max(1, oldest.sinceMs - beforeMs);
    this.#idleTimer = inMs === undefined ? undefined : setTimeout(() => this.#closeIdle(), inMs).unref();
  }
}
