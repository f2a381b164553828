/** This process as the database knows it: a new id at every start, and again after it was taken for dead. */
import { hostname } from "node:os";
import type { RecoverySettings } from "../config/recovery-options.ts";
import { delay } from "../database/backoff.ts";
import type { Database } from "../database/database.ts";
import type { Notices } from "../database/notices.ts";
import { BegunCount } from "../heart/begun-count.ts";
import { steadyNowMs } from "../heart/clock.ts";
import { SharedDeadlines } from "../heart/deadlines.ts";
import { type Heart, startHeart } from "../heart/heart.ts";
import type { HeartNews } from "../heart/heart-loop.ts";
import { heartPlanOf } from "../heart/heart-plan.ts";
import type { LastWord } from "../heart/last-word.ts";
import { type Lease, openLease } from "../heart/lease.ts";
import { machineId } from "../heart/machine-id.ts";
import type { RunnerSign } from "../heart/runner-signs.ts";
import { type StandIn, takeStandIn } from "../heart/stand-in.ts";
import { type ReplicaRow, registerReplica, saveDefinitions, setReplicaStatus } from "../sql/replicas.ts";
import type { AnyTask } from "../task/define-task.ts";
import { type ClaimOnTask, newReplicaId, type ReplicaId } from "../task/ids.ts";
import { settingsMark } from "../task/settings.ts";
import { VERSION } from "../version.ts";

const FIRST_BEAT_WITHIN_MS = 3_000;

export interface ReplicaParts {
  readonly database: Database;
  readonly settings: RecoverySettings;
  readonly tasks: readonly AnyTask[];
  readonly queues: readonly string[] | undefined;
  /** For those who explain its tasks. */
  readonly abortGraceMs: number;
}

export class Replica {
  readonly #parts: ReplicaParts;
  #id: ReplicaId = newReplicaId();
  #hasJoined = false;
  #heardAtMs = 0;
  #heart: Heart | undefined;
  #standIn: StandIn | undefined;
  #lease: Lease | undefined;
  #unheard: HeartNews[] = [];
  #onNews: (news: HeartNews) => void = (news) => this.#keepNews(news);
  #inHand: () => number = () => 0;
  #stoppedBy: readonly ClaimOnTask[] = [];
  /** Of the process, whatever its id: what runs goes on when the replica comes back under another. */
  readonly deadlines = new SharedDeadlines();
  readonly begun = new BegunCount();
  #firstBeat = new AbortController();

  constructor(parts: ReplicaParts) {
    this.#parts = parts;
  }

  /** Where its runners read when it was last heard. */
  get leaseFd(): number | undefined {
    return this.#lease?.readFd;
  }

  get id(): ReplicaId {
    return this.#id;
  }

  /**
   * Known to the database, which hears its heart or has a session that stands in for it: nothing is claimed before the end of a
   * session can tell of its death.
   */
  async join(notices: Notices): Promise<void> {
    const standingIn = takeStandIn(notices, this.#id);
    const saving = this.#saveDefinitions();
    saving.catch(() => {});
    try {
      // Once both are on their way: to start a thread takes a while, also of this one.
      await new Promise((resolve) => setImmediate(resolve));
      const firstBeat = this.#startHeart();
      await saving;
      this.#standIn = await standingIn;
      await this.#register();
      const isHeard = firstBeat();
      if (!this.#standIn?.isHeld()) await isHeard;
    } catch (error) {
      void standingIn.then((late) => late?.letGo());
      this.#standIn = undefined;
      await this.#heart?.stop();
      throw error;
    }
  }

  /** Its heart has a session of its own, or this id is given up. */
  #endStandIn(): void {
    void this.#standIn?.letGo();
    this.#standIn = undefined;
  }

  /** What came before there was a listener comes at once. */
  onNews(listener: (news: HeartNews) => void): void {
    this.#onNews = listener;
    for (const news of this.#unheard.splice(0)) listener(news);
  }

  /** Nothing has been taken yet, so there is nothing to stop: a heart that is late at the start must not end the process for it. */
  #keepNews(news: HeartNews): void {
    this.#unheard.push(news);
    if (news.kind === "fenced") this.confirmStopped();
  }

  /** How many tasks are in hand, for its beats. */
  countInHand(inHand: () => number): void {
    this.#inHand = inHand;
  }

  /**
   * Under a new id. Nothing beats under the old one again. `onKnown` comes when the database knows the new one and before its heart
   * begins; a database that does not answer is tried often, so no heart is started for it.
   */
  async rejoin(onKnown: () => Promise<void>): Promise<void> {
    await this.#heart?.stop();
    this.#endStandIn();
    // An id that the database has not answered for may be tried again: nothing was ever claimed under it.
    if (this.#hasJoined) this.#id = newReplicaId();
    this.#hasJoined = false;
    await this.#saveDefinitions();
    await this.#register();
    await onKnown();
    await this.#startHeart()();
  }

  async #saveDefinitions(): Promise<void> {
    const { database, tasks } = this.#parts;
    await saveDefinitions(
      database,
      // By the task's own name: a copy of a task may have another than the settings that it was made with.
      tasks.map(({ name, settings }) => ({ ...settings, name })),
    );
  }

  /** Notes when that was sent: its first sign of life. */
  async #register(): Promise<void> {
    const { database, tasks, queues, settings, abortGraceMs } = this.#parts;
    const { promise, promiseAtStart } = heartPlanOf(settings);
    this.#heardAtMs = steadyNowMs();
    await registerReplica(database, {
      id: this.#id,
      machineId: machineId(),
      hostname: hostname(),
      pid: process.pid,
      version: VERSION,
      tasks: tasks.map((task) => task.name),
      versions: tasks.map((task) => settingsMark(task.settings)),
      queues,
      recovery: settings,
      abortGraceMs,
      promise: this.#standIn ? promiseAtStart : promise,
      sessionEpoch: this.#standIn?.epoch,
    });
    this.#hasJoined = true;
  }

  /** Returns what makes it begin, for a replica that is known by then, and waits for its first beat. */
  #startHeart(): () => Promise<void> {
    const { database, tasks, settings } = this.#parts;
    // Only processes can go on while this one stands still.
    if (tasks.some((task) => task.settings.runIn === "process")) this.#lease ??= openLease();
    const firstBeat = new AbortController();
    this.#firstBeat = firstBeat;
    const heart = startHeart({
      ...{ database, replicaId: this.#id, plan: heartPlanOf(settings), vanishedAfterMs: settings.runningDeadAfterMs },
      leaseFd: this.#lease?.fd,
      ...{ blockedLoop: settings.blockedLoop, deadlines: this.deadlines, begun: this.begun },
      inHand: () => this.#inHand(),
      onNews: (news) => {
        if (news.kind === "beating") {
          firstBeat.abort();
          this.#endStandIn();
        }
        this.#onNews(news);
      },
    });
    this.#heart = heart;
    return () => {
      heart.begin(this.#heardAtMs, this.#standIn);
      // A heart that is late is no reason not to work.
      return delay(FIRST_BEAT_WITHIN_MS, firstBeat.signal);
    };
  }

  confirmStopped(): void {
    this.#heart?.confirmStopped();
  }

  /** For its heart, which tells of them with its beats. */
  carry(runners: readonly RunnerSign[]): void {
    this.#heart?.carry(runners);
  }

  /** Blocks this thread until that is on record, or a moment has passed. */
  sayLast(word: LastWord): void {
    this.#heart?.sayLast(word);
  }

  setStatus(status: ReplicaRow["status"], id: ReplicaId = this.#id): Promise<void> {
    return setReplicaStatus(this.#parts.database, id, status, this.#stoppedBy);
  }

  /** These have told it to stop, if any. On record together with that it drains: should the process end before it has left, they are to blame. */
  async drain(stoppedBy: readonly ClaimOnTask[]): Promise<void> {
    this.#stoppedBy = stoppedBy;
    await this.setStatus("draining").catch(() => {});
  }

  /** Its heart last: a session that ends before it is known why would look like a crash. */
  async leave(): Promise<void> {
    // A program that has left does not stay for a beat that will not come.
    this.#firstBeat.abort();
    try {
      await this.setStatus("offline");
    } finally {
      await this.#heart?.stop();
      this.#endStandIn();
      this.#lease?.close();
    }
  }
}
