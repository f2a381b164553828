/**
 * What waits for a reader. It holds so much and no more: the oldest is lost first, and the reader is told how many were. What was put in last,
 * the end, is never lost.
 */
interface Reader<T> {
  readonly resolve: (result: IteratorResult<T, undefined>) => void;
  readonly reject: (error: unknown) => void;
}

export class UpdateQueue<T> {
  readonly #limit: number;
  readonly #afterLoss: (count: number, last: T) => T;
  #items: T[] = [];
  #lost: { count: number; last: T } | undefined;
  #readers: Reader<T>[] = [];
  #isClosed = false;
  #failure: { error: unknown } | undefined;

  /** `afterLoss`: what a reader is told who has lost so many, the last of them given. */
  constructor(limit: number, afterLoss: (count: number, last: T) => T) {
    this.#limit = limit;
    this.#afterLoss = afterLoss;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  put(item: T): void {
    if (this.#isClosed) return;
    const reader = this.#readers.shift();
    if (reader) {
      reader.resolve({ done: false, value: item });
      return;
    }
    this.#items.push(item);
    if (this.#items.length <= this.#limit) return;
    const last = this.#items.shift() as T;
    this.#lost = { count: (this.#lost?.count ?? 0) + 1, last };
  }

  /** Nothing more comes; what waits is still read. */
  close(): void {
    this.#isClosed = true;
    for (const reader of this.#readers.splice(0)) reader.resolve({ done: true, value: undefined });
  }

  /** What waits is not read any more: the next who asks is told the error, once. */
  fail(error: unknown): void {
    if (this.#isClosed) return;
    const reader = this.#readers.shift();
    if (reader) reader.reject(error);
    else this.#failure = { error };
    this.clear();
  }

  /** The reader has gone. */
  clear(): void {
    this.#items = [];
    this.#lost = undefined;
    this.close();
  }

  async take(): Promise<IteratorResult<T, undefined>> {
    if (this.#failure) {
      const { error } = this.#failure;
      this.#failure = undefined;
      throw error;
    }
    if (this.#lost) {
      const { count, last } = this.#lost;
      this.#lost = undefined;
      return { done: false, value: this.#afterLoss(count, last) };
    }
    if (this.#items.length > 0) return { done: false, value: this.#items.shift() as T };
    if (this.#isClosed) return { done: true, value: undefined };
    return new Promise((resolve, reject) => this.#readers.push({ resolve, reject }));
  }
}
