/**
 * Looks for all streams of this process: one loop, one statement at a time, however many there are. A notice makes a look come sooner; without one,
 * it comes by itself. Every second it also asks how the tasks stand, so that whatever nobody has told is told from that.
 */
import { randomUUID } from "node:crypto";
import { createBackoff, delay } from "../database/backoff.ts";
import type { Database } from "../database/database.ts";
import { ClosedError } from "../database/errors.ts";
import type { Notices } from "../database/notices.ts";
import { isOutage, isTransient } from "../database/transient.ts";
import { wakeUp } from "../database/wake-up.ts";
import {
  beginTopics,
  followTopics,
  leaveTopics,
  lookSince,
  renewFollowing,
  type Standing,
  type Topic,
} from "../sql/following.ts";
import type { TaskId } from "../task/ids.ts";
import type { Followed, Looking } from "./stream.ts";

/** A process that is killed costs others for as long as this, and not longer. */
const LEASE_MS = 30_000;
const RENEW_EVERY_MS = 10_000;
const LOOK_EVERY_MS = 1_000;
const LOOK_EVERY_WITHOUT_NOTICES_MS = 250;
/** However many notices come. */
const PAUSE_MS = 20;
/** What one look reads at the most. Where more has happened, its readers begin with the present state. */
const LOOK_LIMIT = 20_000;

export class Feed implements Looking {
  readonly #database: Database;
  readonly #notices: Notices;
  readonly #streams = new Map<Topic, Set<Followed>>();
  /** Of these, those that are not told of what happens yet. */
  readonly #beginning = new Set<Followed>();
  /** Topics that nobody follows here any more, which the database has not been told yet. True: nothing more will happen to them. */
  readonly #left = new Map<Topic, boolean>();
  readonly #bell = wakeUp();
  readonly #stopping = new AbortController();
  #loop: Promise<void> | undefined;
  /** As whom this process follows: another one whenever its lease was lost. */
  #follower: string | undefined;
  #epoch = "";
  /** What the streams that have begun have been told of. */
  #seen: string | undefined;
  #renewAtMs = 0;
  #comparedAtMs = 0;

  constructor(database: Database, notices: Notices) {
    this.#database = database;
    this.#notices = notices;
  }

  add(stream: Followed): void {
    if (this.#stopping.signal.aborted) {
      stream.fail(new ClosedError());
      return;
    }
    const others = this.#streams.get(stream.topic) ?? new Set();
    this.#streams.set(stream.topic, others.add(stream));
    this.#beginning.add(stream);
    this.#left.delete(stream.topic);
    this.#bell.ring();
    this.#loop ??= this.#run();
  }

  remove(stream: Followed): void {
    this.#beginning.delete(stream);
    const others = this.#streams.get(stream.topic);
    if (!others?.delete(stream)) return;
    if (others.size > 0) return;
    this.#streams.delete(stream.topic);
    this.#left.set(stream.topic, stream.isOver);
    this.#bell.ring();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#failAll(new ClosedError());
    await this.#loop;
    // Otherwise its topics leave with the lease.
    await this.#leave().catch(() => {});
  }

  async #run(): Promise<void> {
    const subscriptions = [
      this.#notices.on("happened", (follower) => {
        if (follower === this.#follower) this.#bell.ring();
      }),
      this.#notices.onReconnect(() => this.#bell.ring()),
    ];
    await this.#notices.start();
    const backoff = createBackoff({ firstMs: 50, maxMs: 2_000 });
    while ((this.#streams.size > 0 || this.#left.size > 0) && !this.#stopping.signal.aborted) {
      const startedAtMs = performance.now();
      try {
        await this.#leave();
        if (this.#streams.size > 0) await this.#look();
        backoff.reset();
      } catch (error) {
        // Without a word to the database, its topics leave with the lease.
        if (this.#streams.size === 0) this.#lose();
        // An outage says nothing about what is followed.
        if (!isTransient(error) && !isOutage(error)) this.#failAll(error);
        await backoff.pause(this.#stopping.signal);
        continue;
      }
      if (this.#streams.size === 0) continue;
      const restMs = this.#notices.isListening ? LOOK_EVERY_MS : LOOK_EVERY_WITHOUT_NOTICES_MS;
      await this.#bell.wait(restMs, this.#stopping.signal);
      await delay(Math.max(0, startedAtMs + PAUSE_MS - performance.now()), this.#stopping.signal);
    }
    for (const unsubscribe of subscriptions) unsubscribe();
    this.#seen = undefined;
    this.#loop = undefined;
  }

  async #look(): Promise<void> {
    const now = performance.now();
    if (this.#follower !== undefined && now >= this.#renewAtMs) {
      if (!(await renewFollowing(this.#database, this.#follower, LEASE_MS))) this.#lose();
      this.#renewAtMs = now + RENEW_EVERY_MS;
    }
    if (this.#beginning.size > 0) await this.#begin([...this.#beginning]);
    const seen = this.#seen;
    if (this.#follower === undefined || seen === undefined) return;
    const isToCompare = now >= this.#comparedAtMs + LOOK_EVERY_MS;
    const since = { follower: this.#follower, epoch: this.#epoch, snapshot: seen };
    const look = await lookSince(this.#database, since, isToCompare ? this.#tasks() : [], LOOK_LIMIT);
    if (!look) return this.#lose();
    this.#seen = look.snapshot;
    if (isToCompare) this.#comparedAtMs = now;
    const happenings = groupBy(look.happenings, ({ topic }) => topic);
    const standings = byTask(look.standings);
    for (const [topic, streams] of this.#streams) {
      const happened = happenings.get(topic) ?? [];
      for (const stream of streams) {
        if (this.#beginning.has(stream)) continue;
        stream.looked(look, happened, stream.taskId && standings.get(stream.taskId));
        if (isToCompare && stream.taskId && !standings.has(stream.taskId)) stream.notFound();
      }
    }
  }

  /** First they are followed, so that all that happens from then on is written; then it is read how they stand. */
  async #begin(streams: readonly Followed[]): Promise<void> {
    const follower = this.#follower ?? randomUUID();
    const sentAtMs = performance.now();
    const epoch = await followTopics(
      this.#database,
      follower,
      streams.map(({ topic }) => topic),
      LEASE_MS,
    );
    if (epoch === null) return this.#lose();
    if (this.#follower === undefined) [this.#follower, this.#epoch] = [follower, epoch];
    this.#renewAtMs = sentAtMs + RENEW_EVERY_MS;
    const topics = streams.map(({ topic }) => topic);
    const from = streams.map((stream) => (stream.from?.epoch === epoch ? stream.from : null));
    const tasks = streams.flatMap(({ taskId }) => taskId ?? []);
    const beginning = await beginTopics(this.#database, topics, from, tasks, LOOK_LIMIT);
    if (beginning.epoch !== this.#epoch) return this.#lose();
    this.#seen ??= beginning.snapshot;
    const standings = byTask(beginning.standings);
    const kept = new Set(beginning.kept);
    const happenings = groupBy(beginning.happenings, ({ place }) => place);
    for (const [place, stream] of streams.entries()) {
      // Its reader may have gone meanwhile.
      if (!this.#beginning.delete(stream)) continue;
      stream.began(
        beginning,
        kept.has(place),
        happenings.get(place) ?? [],
        stream.taskId && standings.get(stream.taskId),
      );
    }
  }

  /** Something may have been missed: everybody begins anew, with the present state. */
  #lose(): void {
    this.#follower = undefined;
    this.#seen = undefined;
    for (const streams of this.#streams.values()) for (const stream of streams) this.#beginning.add(stream);
    this.#left.clear();
    this.#bell.ring();
  }

  async #leave(): Promise<void> {
    const follower = this.#follower;
    const left = [...this.#left];
    this.#left.clear();
    if (follower === undefined) return;
    for (const areOver of [true, false]) {
      const topics = left.flatMap(([topic, isOver]) => (isOver === areOver ? topic : []));
      if (topics.length === 0) continue;
      try {
        await leaveTopics(this.#database, follower, topics, areOver);
      } catch (error) {
        for (const topic of topics) if (!this.#streams.has(topic)) this.#left.set(topic, areOver);
        throw error;
      }
    }
  }

  #tasks(): TaskId[] {
    return [...this.#streams.values()].flatMap(([stream]) => stream?.taskId ?? []);
  }

  #failAll(error: unknown): void {
    for (const streams of [...this.#streams.values()]) for (const stream of [...streams]) stream.fail(error);
  }
}

function groupBy<T, K>(items: readonly T[], keyOf: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group) group.push(item);
    else groups.set(keyOf(item), [item]);
  }
  return groups;
}

function byTask(standings: readonly Standing[]): Map<TaskId, Standing> {
  return new Map(standings.map((standing) => [standing.taskId, standing]));
}
