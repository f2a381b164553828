/**
 * Turns calls that happen at the same time into one statement. A call waits for nobody when nothing is under way;
 * what arrives while statements are under way leaves together with the next.
 */
export interface BatcherOptions<Item, Answer> {
  readonly maxItems: number;
  /** How many batches may be under way at once. */
  readonly maxUnderWay: number;
  /** One answer per item, in order; a promise of one where an item may fail by itself. */
  readonly run: (items: readonly Item[]) => Promise<readonly (Answer | Promise<Answer>)[]>;
}

interface Waiting<Item, Answer> {
  readonly item: Item;
  readonly resolve: (answer: Answer | Promise<Answer>) => void;
  readonly reject: (error: unknown) => void;
}

export class Batcher<Item, Answer> {
  readonly #options: BatcherOptions<Item, Answer>;
  #waiting: Waiting<Item, Answer>[] = [];
  #underWay = 0;
  #unanswered = 0;
  #isScheduled = false;
  #onIdle: (() => void)[] = [];

  constructor(options: BatcherOptions<Item, Answer>) {
    this.#options = options;
  }

  /** Items that have no answer yet. */
  get size(): number {
    return this.#unanswered;
  }

  add(item: Item): Promise<Answer> {
    this.#unanswered++;
    return new Promise<Answer>((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      this.#schedule();
    });
  }

  /** Resolves when every item that was added has its answer. */
  async idle(): Promise<void> {
    if (this.#unanswered === 0) return;
    await new Promise<void>((resolve) => this.#onIdle.push(resolve));
  }

  /**
   * Where nothing is under way, as soon as whoever adds has done so: what is added in one go leaves together. Else at the end of this
   * turn of the loop, with what others add in it.
   */
  #schedule(): void {
    if (this.#isScheduled || this.#underWay >= this.#options.maxUnderWay) return;
    this.#isScheduled = true;
    if (this.#underWay === 0) process.nextTick(() => this.#send());
    else setImmediate(() => this.#send());
  }

  #send(): void {
    this.#isScheduled = false;
    while (this.#waiting.length > 0 && this.#underWay < this.#options.maxUnderWay) {
      void this.#runBatch(this.#waiting.splice(0, this.#options.maxItems));
    }
  }

  async #runBatch(batch: readonly Waiting<Item, Answer>[]): Promise<void> {
    this.#underWay++;
    try {
      const answers = await this.#options.run(batch.map((waiting) => waiting.item));
      for (const [index, waiting] of batch.entries()) this.#answer(waiting, answers[index] as Answer | Promise<Answer>);
    } catch (error) {
      for (const waiting of batch) waiting.reject(error);
      this.#noteAnswered(batch.length);
    } finally {
      this.#underWay--;
      if (this.#waiting.length > 0) this.#schedule();
    }
  }

  /** The promise of an answer is none yet. */
  #answer(waiting: Waiting<Item, Answer>, answer: Answer | Promise<Answer>): void {
    waiting.resolve(answer);
    const note = () => this.#noteAnswered(1);
    if (answer instanceof Promise) answer.then(note, note);
    else note();
  }

  #noteAnswered(count: number): void {
    this.#unanswered -= count;
    if (this.#unanswered === 0) for (const resolve of this.#onIdle.splice(0)) resolve();
  }
}
