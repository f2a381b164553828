/** What one reader follows: an async iterable with a bounded queue. It costs nothing before its first update is asked for, nor when it is over. */
import type { Happening, Look, Standing, Topic } from "../sql/following.ts";
import type { TaskId } from "../task/ids.ts";
import { isSeenIn, type Position, writePosition } from "./position.ts";
import { UpdateQueue } from "./update-queue.ts";

/** How many updates wait for a slow reader. */
const QUEUE = 100;

/** When it happened, by the database's clock, and where to go on behind it. */
export interface Placed {
  readonly at: Date;
  /** Opaque. Given as `from`, in this process or in another, the reader goes on behind this update. */
  readonly position: string;
}

/**
 * What has been told of a topic, and so what is to be told next: at most one update for each thing that happened, so that each has a position of its
 * own. `standing`: as of the same snapshot, where it was looked for.
 */
export interface View<News> {
  /** The end has been told. */
  readonly isOver: boolean;
  /** All that must be known of it to go on, in another process too: letters, digits, commas, and not many. */
  readonly told: string;
  resume(told: string): void;
  begin(standing: Standing | undefined, missed: boolean): News | undefined;
  happened(happening: Happening, standing: Standing | undefined): News | undefined;
  /** After all that has happened: whatever has not been told. */
  compare(standing: Standing): News | undefined;
}

/** Who looks for all streams of a process (see feed.ts). */
export interface Looking {
  add(stream: Followed): void;
  remove(stream: Followed): void;
}

/** A stream, as it is looked after. */
export interface Followed {
  readonly topic: Topic;
  /** Undefined: its topic is not a task. */
  readonly taskId: TaskId | undefined;
  /** Nothing more will happen to its topic. */
  readonly isOver: boolean;
  /** Where its reader was when it came; undefined once that no longer matters. */
  readonly from: Position | undefined;
  began(look: Look, isKept: boolean, happenings: readonly Happening[], standing: Standing | undefined): void;
  looked(look: Look, happenings: readonly Happening[], standing: Standing | undefined): void;
  /** Its task is not on record, or not any more. */
  notFound(): void;
  fail(error: unknown): void;
}

export interface StreamOptions<News> {
  readonly topic: Topic;
  readonly taskId?: TaskId;
  readonly view: View<News>;
  readonly dropped: (count: number) => News;
  readonly from: Position | undefined;
  readonly signal: AbortSignal | undefined;
  /** What its reader is told if the task is not on record, or not any more. */
  readonly notFound?: () => Error;
}

export class Stream<News> implements AsyncIterableIterator<News & Placed, undefined>, Followed {
  readonly topic: Topic;
  readonly taskId: TaskId | undefined;
  readonly #looking: Looking;
  readonly #options: StreamOptions<News>;
  readonly #view: View<News>;
  readonly #queue: UpdateQueue<News & Placed>;
  #hasStarted = false;
  #hasBegun = false;
  /** What it has been told of: everything that this snapshot could see. */
  #seen = "";

  constructor(looking: Looking, options: StreamOptions<News>) {
    this.topic = options.topic;
    this.taskId = options.taskId;
    this.#looking = looking;
    this.#options = options;
    this.#view = options.view;
    this.#queue = new UpdateQueue(QUEUE, (count, { at, position }) => ({ ...options.dropped(count), at, position }));
  }

  get isOver(): boolean {
    return this.#view.isOver;
  }

  get from(): Position | undefined {
    return this.#hasBegun ? undefined : this.#options.from;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<News & Placed, undefined>> {
    if (!this.#hasStarted) this.#start();
    return this.#queue.take();
  }

  async return(): Promise<IteratorResult<News & Placed, undefined>> {
    this.#hasStarted = true;
    this.#queue.clear();
    this.#leave();
    return { done: true, value: undefined };
  }

  fail(error: unknown): void {
    this.#queue.fail(error);
    this.#leave();
  }

  began(look: Look, isKept: boolean, happenings: readonly Happening[], standing: Standing | undefined): void {
    if (this.taskId !== undefined && !standing) {
      this.notFound();
      return;
    }
    const from = isKept ? this.from : undefined;
    const missed = this.#hasBegun || this.#options.from !== undefined;
    if (this.from) this.#view.resume(this.from.told);
    this.#hasBegun = true;
    this.#seen = look.snapshot;
    if (!from) {
      this.#put(look, standing, this.#view.begin(standing, missed));
    } else {
      // First what the position's own look has seen and the reader has not, then what came later: so each update has a position of its own.
      const sooner = happenings.filter(({ xact }) => isSeenIn(from.until, xact));
      const later = happenings.filter(({ xact }) => !isSeenIn(from.until, xact));
      this.#tell(look, sooner, standing, from);
      this.#tell(look, later, standing, { before: from.until, until: look.snapshot });
    }
    this.#finish(look, standing);
  }

  looked(look: Look, happenings: readonly Happening[], standing: Standing | undefined): void {
    const before = this.#seen;
    this.#seen = look.snapshot;
    // Since the look of the others it may have begun, or may have been looked for once more.
    const unseen = happenings.filter(({ xact }) => !isSeenIn(before, xact));
    this.#tell(look, unseen, standing, { before, until: look.snapshot });
    this.#finish(look, standing);
  }

  notFound(): void {
    this.fail(this.#options.notFound?.() ?? new Error(`${this.topic} is not on record`));
  }

  #start(): void {
    this.#hasStarted = true;
    const { signal } = this.#options;
    if (signal?.aborted) {
      this.fail(signal.reason);
      return;
    }
    signal?.addEventListener("abort", this.#onAbort, { once: true });
    this.#looking.add(this);
  }

  readonly #onAbort = (): void => this.fail(this.#options.signal?.reason);

  #leave(): void {
    this.#options.signal?.removeEventListener("abort", this.#onAbort);
    this.#looking.remove(this);
  }

  #finish(look: Look, standing: Standing | undefined): void {
    if (standing) this.#put(look, standing, this.#view.compare(standing));
    if (!this.#view.isOver) return;
    this.#queue.close();
    this.#leave();
  }

  #tell(
    { epoch }: Look,
    happenings: readonly Happening[],
    standing: Standing | undefined,
    { before, until }: Pick<Position, "before" | "until">,
  ): void {
    for (const happening of happenings) {
      if (this.#view.isOver) return;
      const news = this.#view.happened(happening, standing);
      if (!news) continue;
      const position = writePosition({ epoch: epoch ?? "", before, until, id: happening.id, told: this.#view.told });
      this.#queue.put({ ...news, at: new Date(happening.at), position });
    }
  }

  #put({ at, epoch, snapshot }: Look, standing: Standing | undefined, news: News | undefined): void {
    if (!news) return;
    const seen = { before: snapshot, until: snapshot, id: "0" };
    const position = writePosition({ epoch: epoch ?? "", ...seen, told: this.#view.told });
    // Of a task that has ended, only the end is told.
    this.#queue.put({ ...news, at: standing?.endedAt ? new Date(standing.endedAt) : at, position });
  }
}
