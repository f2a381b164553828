/**
 * What a replica does when it may not go on as it is: declared dead by others, or no longer able to prove its claims.
 *
 *   refused  everything it holds is lost: all handlers are told, and it comes back under another id
 *   fenced   others may soon take what it holds: work that they may repeat stops first, work that nobody will repeat goes
 *            on, and is taken along to the new id once the database can be reached and if its claims still hold
 */
import { createBackoff } from "../database/backoff.ts";
import type { Database } from "../database/database.ts";
import { breaksConnection } from "../database/transient.ts";
import type { Events } from "../events.ts";
import type { HeartNews } from "../heart/heart-loop.ts";
import { forgive } from "../recovery/came-back.ts";
import { PassedBy } from "../recovery/passed-by.ts";
import { rehomeClaims } from "../sql/claims.ts";
import { ClaimLostError, CutOffError } from "../task/errors.ts";
import type { ClaimId, ReplicaId } from "../task/ids.ts";
import { refOf } from "./ended-execution.ts";
import { type Execution, mustStop } from "./execution.ts";
import { giveBackUnknown } from "./give-back.ts";
import type { Hand } from "./hand.ts";
import { Outages } from "./outages.ts";
import type { Received } from "./received.ts";
import type { Replica } from "./replica.ts";
import type { Changes } from "./waiting.ts";

export interface StandDownParts {
  readonly database: Database;
  readonly events: Events;
  readonly replica: Replica;
  readonly hand: Hand;
  readonly changes: Changes;
  readonly received: Received;
  readonly onBack: () => void;
  /** Something holds up what is tried again. */
  readonly onError: (error: unknown) => void;
}

export class StandDown {
  readonly #parts: StandDownParts;
  readonly #outages: Outages;
  readonly #stopping = new AbortController();
  readonly #unforgiven: PassedBy;
  #isUnderWay = false;
  #mustRejoin = false;

  constructor(parts: StandDownParts) {
    this.#parts = parts;
    this.#outages = new Outages(parts.events);
    this.#unforgiven = new PassedBy({ service: "sweep", part: "replicas that came back" }, parts);
    parts.replica.onNews((news) => this.#hear(news));
  }

  /** While this is true nothing new may be taken: there is no id under which it would be safe. */
  get isUnderWay(): boolean {
    return this.#isUnderWay;
  }

  stop(): void {
    this.#stopping.abort();
  }

  #hear(news: HeartNews): void {
    const { events, replica } = this.#parts;
    const replicaId = replica.id;
    if (news.kind === "beating") events.emit("heart.beating", { replicaId, hasSession: news.hasSession });
    else if (news.kind === "lost") events.emit("heart.lost", { ...news, replicaId });
    else if (news.kind === "unblocked") events.emit("loop.blocked", { ...news, replicaId });
    else this.#onLost(news);
  }

  #onLost(news: HeartNews & { kind: "refused" | "fenced" }): void {
    const { events, hand, replica } = this.#parts;
    const replicaId = replica.id;
    if (this.#stopping.signal.aborted) {
      // It is leaving: with nothing left that must stop, its heart has no reason to end the process.
      if (!hand.executions().some(mustStop)) replica.confirmStopped();
      return;
    }
    if (news.kind === "refused") events.emit("beat.refused", { replicaId });
    else events.emit("replica.fenced", { replicaId, because: news.because });
    if (this.#isUnderWay) {
      this.#onceMore();
      return;
    }
    this.#isUnderWay = true;
    void this.#standDown(news.kind).finally(() => {
      this.#isUnderWay = false;
      this.#parts.onBack();
    });
  }

  /** The next id was lost as well, on the way back: all that must stop has stopped, and nothing new was begun. */
  #onceMore(): void {
    this.#parts.replica.confirmStopped();
    this.#mustRejoin = true;
  }

  async #standDown(kind: "refused" | "fenced"): Promise<void> {
    const { hand, replica, received } = this.#parts;
    const unbegun = hand.releasing(hand.takeUnbegun());
    received.noteNeverBegun(unbegun);
    const running = hand.executions();
    const stopping = kind === "refused" ? running : running.filter(mustStop);
    for (const execution of stopping) {
      const { claimId, taskId } = execution.claimed;
      execution.abort(kind === "refused" ? new ClaimLostError(claimId, taskId) : new CutOffError(taskId));
    }
    if (kind === "fenced") await this.#untilEnded(stopping);
    replica.confirmStopped();
    await this.#comeBack(kind);
    hand.released(unbegun);
  }

  /** For as long as it takes: the heart ends the process if that is too long. */
  async #untilEnded(executions: readonly Execution[]): Promise<void> {
    const { changes } = this.#parts;
    const haveEnded = () => executions.every(({ hasEnded }) => hasEnded);
    while (!haveEnded()) await changes.until(haveEnded, 60_000);
  }

  async #comeBack(kind: "refused" | "fenced"): Promise<void> {
    const { events, replica } = this.#parts;
    const backoff = createBackoff({ firstMs: 50, maxMs: 500 });
    const before = replica.id;
    /** Every id under which something may still be held. */
    const left = new Set<ReplicaId>();
    while (!this.#stopping.signal.aborted) {
      try {
        left.add(replica.id);
        this.#mustRejoin = false;
        // As soon as there is an id to take it to: its session has ended, and that counts against the old one after a short grace.
        await replica.rejoin(() => this.#moveFrom(left, kind));
        for (const id of left) if (!(await this.#forgive(id, kind))) void this.#forgiveLater(id, kind);
        if (this.#mustRejoin) continue;
        this.#outages.over("coming back");
        return events.emit("replica.rejoined", { replicaId: replica.id, before });
      } catch (error) {
        // The heart tells of an outage. A refusal, by a trigger or for want of a right, is told of here.
        if (!breaksConnection(error)) this.#outages.noticed(error, "coming back");
        await backoff.pause(this.#stopping.signal);
      }
    }
  }

  /** What somebody has locked of the record, or refuses to have changed, must not keep the replica from its work. */
  async #forgive(id: ReplicaId, kind: "refused" | "fenced"): Promise<boolean> {
    const forgiving = () => forgive(this.#parts.database, id, kind);
    return (
      (await this.#unforgiven.attempt(`putting the record of replica ${id} right, which came back`, forgiving)) === true
    );
  }

  async #forgiveLater(id: ReplicaId, kind: "refused" | "fenced"): Promise<void> {
    const backoff = createBackoff({ firstMs: 500, maxMs: 30_000 });
    for (;;) {
      await backoff.pause(this.#stopping.signal);
      if (this.#stopping.signal.aborted) return;
      try {
        if (await this.#forgive(id, kind)) return await this.#unforgiven.settle();
      } catch {
        // The outage is reported by the heart; here it is only tried again.
      }
    }
  }

  /** What goes on comes along, what has not begun is given back; whatever is left then is nobody's, and recovered at the next sweep. */
  async #moveFrom(ids: Set<ReplicaId>, kind: "refused" | "fenced"): Promise<void> {
    const { database, hand, replica, received } = this.#parts;
    ids.delete(replica.id);
    await this.#takeAlong(ids);
    for (const id of ids) {
      if (kind === "fenced") await giveBackUnknown(database, id, { known: hand.begun(), received });
      await replica.setStatus("offline", id);
    }
  }

  /** What goes on, and what has ended and is not written yet. First of all: until then it belongs to an id that nobody hears. */
  async #takeAlong(left: ReadonlySet<ReplicaId>): Promise<void> {
    const { database, events, replica, hand } = this.#parts;
    const running = hand.executions();
    const claims = hand.begun();
    if (claims.length === 0) return;
    const held = new Set<ClaimId>();
    for (const id of left) {
      for (const claim of await rehomeClaims(database, id, replica.id, claims)) held.add(claim);
    }
    for (const execution of running) {
      const { claimId, taskId } = execution.claimed;
      if (held.has(claimId) || execution.hasEnded) continue;
      if (execution.isAborted || execution.completedInTransaction) continue;
      execution.abort(new ClaimLostError(claimId, taskId));
      events.emit("claim.lost", { ...refOf(execution.claimed), refusedOutcome: undefined });
    }
  }
}
