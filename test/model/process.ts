/**
 * One process as the model plays it: the real statements in the order in which a real one sends them, on a real session with
 * its real lock. What a thread and a clock of its own would decide is decided by the same pure functions.
 */
import type { RecoverySettings } from "../../src/config/recovery-options.ts";
import { type HeartPlan, heartPlanOf } from "../../src/heart/heart-plan.ts";
import { fenceOn } from "../../src/heart/self-fencing.ts";
import { rehomeClaims, releaseUnbegun, startClaims } from "../../src/sql/claims.ts";
import { beat, beginHeart, takeSession } from "../../src/sql/hearts.ts";
import { guardClaim, type Outcome } from "../../src/sql/outcomes.ts";
import { registerReplica, setReplicaStatus } from "../../src/sql/replicas.ts";
import { workRound } from "../../src/sql/work-round.ts";
import { type ClaimId, newReplicaId, type ReplicaId } from "../../src/task/ids.ts";
import { Received } from "../../src/worker/received.ts";
import type { Chronicle } from "./chronicle.ts";
import { type Ending, outcomeOf } from "./endings.ts";
import { claimOf, type InHand, inHand, lookAtClaims, mustStop } from "./in-hand.ts";
import { KINDS } from "./kinds.ts";
import type { Happening, Write } from "./record.ts";
import type { Session, Sessions } from "./sessions.ts";

export class Process {
  readonly machine: string;
  readonly settings: RecoverySettings;
  readonly hand = new Map<ClaimId, InHand>();
  condition: "working" | "paused" | "gone" = "working";
  /** No way to the database. */
  isCut = false;
  #replica: ReplicaId = newReplicaId();
  readonly #plan: HeartPlan;
  readonly #chronicle: Chronicle;
  readonly #sessions: Sessions;
  #session: Session | undefined;
  /** Gone for us, and not yet for the server. */
  #halfOpen: Session[] = [];
  #heardAt = 0;
  #sessionGoneAt: number | undefined;
  #isServerDown = false;
  #isFenced = false;
  #hasBegun = false;
  /** The server may have forgotten something. */
  #mustLook = false;
  readonly #received = new Received();

  constructor(parts: { machine: string; settings: RecoverySettings; chronicle: Chronicle; sessions: Sessions }) {
    this.machine = parts.machine;
    this.settings = parts.settings;
    this.#chronicle = parts.chronicle;
    this.#sessions = parts.sessions;
    this.#plan = heartPlanOf(parts.settings);
  }

  get replica(): ReplicaId {
    return this.#replica;
  }

  /** Able to do as it likes in the database. */
  get isAble(): boolean {
    return this.condition === "working" && !this.isCut && !this.#isFenced;
  }

  get hasHalfOpen(): boolean {
    return this.#halfOpen.length > 0;
  }

  /** Under a new id each time. */
  async join(): Promise<void> {
    const { machine, settings } = this;
    const { promise } = this.#plan;
    this.#replica = newReplicaId();
    this.#heardAt = this.#chronicle.now;
    this.#sessionGoneAt = undefined;
    this.#isServerDown = false;
    this.#isFenced = false;
    this.#hasBegun = false;
    const replica = this.#replica;
    const tasks = KINDS.map(({ task }) => task.name);
    await this.#chronicle.during(
      () =>
        registerReplica(this.#chronicle.database, {
          ...{ id: replica, machineId: machine, hostname: machine, pid: 1, version: "0", tasks },
          ...{ queues: undefined, recovery: settings, promise },
        }),
      () => ({
        ...{ kind: "joined", replica, machine },
        ...{ promiseMs: promise.promiseMs, sessionPromiseMs: promise.sessionPromiseMs },
      }),
    );
    await this.beat();
  }

  /** A connection with its lock, and the first word on it. False: refused. */
  async connect(): Promise<boolean> {
    if (this.#session) return true;
    const replica = this.#replica;
    const session = await this.#sessions.open();
    this.#session = session;
    await this.#chronicle.during(
      () => takeSession(session.store, replica),
      () => ({ kind: "session", replica, isHeld: true }),
    );
    // The first time, its registration was that word.
    const isHeard =
      !this.#hasBegun ||
      (await this.#chronicle.during(
        () => beginHeart(session.store, replica, this.#plan.promise),
        (heard) => ({ kind: "beat", replica, isHeard: heard, hasSession: undefined }),
      ));
    if (!isHeard) {
      await this.#comeBack();
      return false;
    }
    this.#hasBegun = true;
    this.#sessionGoneAt = undefined;
    this.#isServerDown = false;
    return true;
  }

  async beat(): Promise<void> {
    if (!(await this.connect())) return;
    const replica = this.#replica;
    const sentAt = this.#chronicle.now;
    const { store } = this.#session as Session;
    const sign = { vitals: {}, hasSession: true, isRemembered: false };
    const isHeard = await this.#chronicle.during(
      () => beat(store, replica, sign),
      (heard) => ({ kind: "beat", replica, isHeard: heard, hasSession: true }),
    );
    if (!isHeard) return this.#comeBack();
    this.#heardAt = sentAt;
    if (this.#mustLook) await this.#look();
  }

  /** Before anything that it does by itself; not before what it was about to do. */
  async #look(): Promise<void> {
    this.#mustLook = false;
    const { lost, adopted, forgotten } = await lookAtClaims(this.#chronicle.database, {
      ...{ replica: this.#replica, known: [...this.hand.values()], received: this.#received, policy: this.settings },
    });
    for (const claim of lost) this.hand.delete(claim);
    for (const task of adopted) this.hand.set(task.claimId, inHand(task));
    if (forgotten.length > 0) await this.#write(forgotten, { run: 0, prefetch: 0 });
  }

  /** As the heart's watchdog does, on a clock of its own. */
  async watch(): Promise<void> {
    if (this.condition !== "working" || this.#isFenced) return;
    const { now } = this.#chronicle;
    const standing = {
      unheardForMs: now - this.#heardAt,
      sessionGoneForMs: this.#sessionGoneAt === undefined ? undefined : now - this.#sessionGoneAt,
      standInUnseenForMs: undefined,
      isServerDown: this.#isServerDown,
    };
    if (fenceOn(standing, this.#plan.fenceAfter) === undefined) return;
    this.#isFenced = true;
    await this.#endSession();
    if (!this.isCut) await this.#comeBack();
  }

  claim(run: number, prefetch: number): Promise<void> {
    return this.round([], { run, prefetch });
  }

  async start(these: readonly InHand[] = this.#unstarted()): Promise<void> {
    if (these.length === 0) return;
    const start = async () => [...(await startClaims(this.#chronicle.database, these.map(claimOf))).started];
    const held = new Set(await this.#writeAll("start", these, start));
    for (const { claim } of these) {
      const own = this.hand.get(claim);
      if (own && held.has(claim)) own.isStarted = true;
      else this.hand.delete(claim);
    }
  }

  async release(these: readonly InHand[] = this.#unstarted(), owner = this.#replica): Promise<void> {
    if (these.length === 0) return;
    await this.#writeAll("release", these, () => releaseUnbegun(this.#chronicle.database, these.map(claimOf), owner));
    for (const { claim } of these) this.hand.delete(claim);
  }

  finish(own: InHand, ending: Ending): Promise<void> {
    return this.round([{ own, ending }], { run: 0, prefetch: 0 });
  }

  /** Writes what has ended and takes what there is room for, in one statement, as a worker does. */
  async round(
    endings: readonly { own: InHand; ending: Ending }[],
    demand: { run: number; prefetch: number },
  ): Promise<void> {
    const replica = this.#replica;
    const outcomes = endings.map(({ own, ending }) => outcomeOf({ ...own, replica }, ending));
    await this.#write(outcomes, demand);
  }

  async #write(outcomes: readonly Outcome[], demand: { run: number; prefetch: number }): Promise<void> {
    const replica = this.#replica;
    const asking = this.#received.noteAsked();
    const request = { ...demand, replicaId: replica, names: KINDS.map(({ task }) => task.name), cursors: [] };
    const { claimed } = await this.#chronicle.during(
      () => workRound(this.#chronicle.database, { ...request, queues: undefined, room: undefined }, outcomes),
      (report): Happening[] => [
        ...outcomes.map(({ claim, task, outcome }): Happening => {
          const isRepeat = report.ended.repeated.includes(claim);
          const verdict = report.ended.late.includes(claim) ? "refused" : isRepeat ? "repeat" : "accepted";
          return { kind: "wrote", what: "finish", claim, task, replica, verdict, outcome };
        }),
        {
          ...{ kind: "claimed", replica },
          claims: report.claimed.map(({ claimId, taskId, state }) => ({ claim: claimId, task: taskId, state })),
        },
      ],
    );
    this.#received.noteAnswer(asking, claimed);
    for (const { claim } of outcomes) this.hand.delete(claim);
    for (const task of claimed) this.hand.set(task.claimId, inHand(task));
  }

  /** In a transaction of the handler's own. */
  async inTransaction(own: InHand, what: "guard" | "complete"): Promise<void> {
    const replica = this.#replica;
    const outcome = what === "complete" ? outcomeOf({ ...own, replica }, "complete") : undefined;
    const isAccepted = await this.#chronicle.during(
      () =>
        this.#chronicle.database
          .transaction((tx) => guardClaim(tx, claimOf(own), outcome))
          .then(() => true)
          .catch(refusal),
      (accepted) => ({
        ...{ kind: "wrote", what, claim: own.claim, task: own.task, replica },
        ...{ verdict: accepted ? "accepted" : "refused", outcome: outcome?.outcome },
      }),
    );
    if (what === "complete" && isAccepted) this.hand.delete(own.claim);
  }

  /** Everything that a process which knows nothing of its loss could still write. */
  async tryEveryWrite(): Promise<void> {
    for (const own of [...this.hand.values()]) {
      if (!own.isStarted) await this.release([own]);
      await this.start([own]);
      await this.inTransaction(own, "guard");
      await this.inTransaction(own, "complete");
      await this.finish(own, "complete");
    }
    await this.claim(1, 1);
  }

  async kill(): Promise<void> {
    this.condition = "gone";
    await this.#endSession();
    await this.dropHalfOpen();
  }

  async leave(): Promise<void> {
    await this.release();
    for (const own of [...this.hand.values()]) await this.finish(own, "abort");
    await this.#setOffline(this.#replica);
    await this.kill();
  }

  async cut(isSeenByTheServer: boolean): Promise<void> {
    this.isCut = true;
    if (this.#session) this.#sessionGoneAt ??= this.#chronicle.now;
    if (isSeenByTheServer) return this.#endSession();
    if (this.#session) this.#halfOpen.push(this.#session);
    this.#session = undefined;
  }

  async heal(): Promise<void> {
    this.isCut = false;
    if (this.#isFenced) await this.#comeBack();
    else await this.connect();
  }

  /** The server is gone and back: so are all its sessions. */
  async loseServer(): Promise<void> {
    const lost = [...this.#halfOpen.splice(0), ...(this.#session ? [this.#session] : [])];
    for (const session of lost) await this.#sessions.end(session);
    if (this.#session) this.#sessionGoneAt ??= this.#chronicle.now;
    this.#isServerDown = !this.isCut;
    this.#mustLook = true;
    this.#session = undefined;
  }

  async dropHalfOpen(): Promise<void> {
    for (const session of this.#halfOpen.splice(0)) await this.#drop(session);
  }

  /** Under another id, with what is still its own: see src/worker/stand-down.ts. */
  async #comeBack(): Promise<void> {
    const before = this.#replica;
    await this.#endSession();
    await this.dropHalfOpen();
    const begun = [...this.hand.values()].filter(({ isStarted }) => isStarted);
    const unstarted = this.#unstarted();
    await this.join();
    const after = this.#replica;
    const held = await this.#chronicle.during(
      () => rehomeClaims(this.#chronicle.database, before, after, begun.map(claimOf)),
      (taken) => ({ kind: "rehomed", before, after, claims: taken }),
    );
    await this.release(unstarted, before);
    await this.#setOffline(before);
    for (const own of begun) {
      if (!held.includes(own.claim)) this.hand.delete(own.claim);
      else if (mustStop(own.name)) await this.finish(own, "abort");
    }
  }

  #unstarted(): InHand[] {
    return [...this.hand.values()].filter(({ isStarted }) => !isStarted);
  }

  async #setOffline(replica: ReplicaId): Promise<void> {
    await this.#chronicle.during(
      () => setReplicaStatus(this.#chronicle.database, replica, "offline"),
      () => ({ kind: "left", replica }),
    );
  }

  async #endSession(): Promise<void> {
    const session = this.#session;
    this.#session = undefined;
    if (session) await this.#drop(session);
  }

  async #drop(session: Session): Promise<void> {
    const replica = this.#replica;
    await this.#chronicle.during(
      () => this.#sessions.end(session),
      () => ({ kind: "session", replica, isHeld: false }),
    );
  }

  #writeAll(what: Write, these: readonly InHand[], work: () => Promise<ClaimId[]>): Promise<ClaimId[]> {
    const replica = this.#replica;
    return this.#chronicle.during(work, (done) =>
      these.map(({ claim, task }) => ({
        ...{ kind: "wrote", what, claim, task, replica, outcome: undefined },
        verdict: done.includes(claim) ? "accepted" : "refused",
      })),
    );
  }
}

function refusal(error: unknown): false {
  if ((error as { code?: string }).code !== "EB001") throw error;
  return false;
}
