/** From claimed to written: starts what there is a slot for, runs it, and hands its outcome to be written. */
import { hostname } from "node:os";
import type { Database } from "../database/database.ts";
import { inHalves } from "../database/in-halves.ts";
import { isAboutSomeRows } from "../database/transient.ts";
import type { Events } from "../events.ts";
import type { RecoveryPolicy } from "../recovery/recovery-action.ts";
import { type ClaimedTask, startClaims } from "../sql/claims.ts";
import { endHeldClaims, type Outcome } from "../sql/outcomes.ts";
import type { AnyTask } from "../task/define-task.ts";
import { WorkerStoppingError } from "../task/errors.ts";
import type { ClaimId, ReplicaId } from "../task/ids.ts";
import type { Asked } from "./claimer.ts";
import type { CompanyWatch } from "./company.ts";
import { ownStopOutcomeOf, runnerCrashOutcomeOf } from "./crash-outcome.ts";
import { type EndedExecution, refOf, tellOfEnd, tellOfUnlessThrew } from "./ended-execution.ts";
import { type EndingListener, Execution } from "./execution.ts";
import type { ExecutionParts } from "./execution-parts.ts";
import { forgottenOutcome } from "./forgotten-ends.ts";
import type { GivingBack } from "./give-back.ts";
import type { Group, Hand } from "./hand.ts";
import type { Outages } from "./outages.ts";
import { type Crashed, type Ending, outcomeOf } from "./outcome.ts";
import type { Pace } from "./pace.ts";
import type { Received } from "./received.ts";
import type { Reports } from "./reports.ts";
import { STALE_AFTER_MS } from "./reserve.ts";
import type { OutcomeStatus, Rounds } from "./rounds.ts";
import { runGroup, runOne } from "./run-group.ts";
import type { Slots } from "./slots.ts";
import type { Changes } from "./waiting.ts";

export interface AttemptsParts {
  readonly database: Database;
  readonly events: Events;
  readonly tasks: ReadonlyMap<string, AnyTask>;
  readonly slots: Slots;
  readonly hand: Hand;
  readonly rounds: Rounds<EndedExecution>;
  readonly reports: Reports;
  readonly pace: Pace;
  readonly givingBack: GivingBack;
  readonly outages: Outages;
  readonly changes: Changes;
  readonly received: Received;
  readonly company: CompanyWatch;
  readonly execution: ExecutionParts;
  /** What becomes of a task whose runner crashes. */
  readonly recovery: RecoveryPolicy;
  readonly isStopping: () => boolean;
  /** Whether what was claimed under this id may still be begun: not once others may have been told that it stops. */
  readonly mayBegin: (under: ReplicaId) => boolean;
  /** A task that was asked for longer ago may not begin. Counted by a clock that runs through suspend, because others count the silence of this process. */
  readonly beginWithinMs: number;
  readonly steadyNow: () => number;
  /** There is a slot for another task. */
  readonly onRoom: () => void;
  /** An outcome was written. */
  readonly onWritten: () => void;
  /** A reply was lost: there may be claims that are ours without our knowing. */
  readonly onUnsure: () => void;
}

export class Attempts {
  readonly #parts: AttemptsParts;
  readonly #listener: EndingListener = {
    onEnding: (execution, ending, isLast) => {
      this.#onEnding(execution, ending);
      if (isLast) this.#onOver(execution);
    },
  };
  #isStarting = false;
  #isBeginning = false;
  #staleTimer: NodeJS.Timeout | undefined;

  constructor(parts: AttemptsParts) {
    this.#parts = parts;
  }

  /** Runs what is running already, and starts of the rest what there is a slot for. */
  take(claimed: readonly ClaimedTask[], asked: Asked): void {
    if (!this.#mayBegin(asked)) {
      void this.#parts.givingBack.giveBack([{ tasks: claimed, under: asked.under }]);
      return;
    }
    const { hand, beginWithinMs } = this.#parts;
    const nowMs = performance.now();
    const ahead = claimed.filter((task) => task.state === "claimed");
    if (ahead.length > 0) hand.addPrefetched(ahead, nowMs);
    const running = ahead.length > 0 ? claimed.filter((task) => task.state === "running") : claimed;
    const staleAtMs = Math.min(this.#parts.steadyNow() + STALE_AFTER_MS, asked.atMs + beginWithinMs);
    hand.reserve.add({ tasks: running, under: asked.under, staleAtMs });
    this.#beginReserved();
    if (hand.prefetched > 0) void this.#startPrefetched();
  }

  #mayBegin({ under, atMs }: Asked): boolean {
    const { mayBegin, isStopping, beginWithinMs, steadyNow } = this.#parts;
    return mayBegin(under) && !isStopping() && steadyNow() - atMs < beginWithinMs;
  }

  /** As many as there are slots for. A handler that ends at once comes back here, where the next is begun already. */
  #beginReserved(): void {
    const { hand, slots, tasks, events, isStopping, steadyNow } = this.#parts;
    if (this.#isBeginning || hand.reserve.size === 0) return;
    this.#isBeginning = true;
    try {
      const isHeard = events.isHeard("task.started");
      while (slots.free > 0 && !isStopping()) {
        // Each time: a handler may take its time before it returns, and the process may be paused.
        const claimed = hand.reserve.take(steadyNow());
        if (!claimed) break;
        const task = tasks.get(claimed.name) as AnyTask;
        slots.take(claimed.queue, task.settings.runIn);
        runOne(this.#begin(task, claimed, performance.now(), isHeard), this.#listener);
      }
    } finally {
      this.#isBeginning = false;
    }
    if (hand.reserve.size > 0 && !isStopping()) this.#watchReserve();
  }

  /** What is stale is given back: now, where that is why there is a slot left, or as soon as it is. */
  #watchReserve(): void {
    const { hand, slots, steadyNow } = this.#parts;
    if (slots.free > 0) {
      this.#giveBackStale();
      return;
    }
    this.#staleTimer ??= setTimeout(
      () => {
        this.#staleTimer = undefined;
        this.#giveBackStale();
      },
      Math.max(1, hand.reserve.staleAtMs - steadyNow()),
    );
  }

  #giveBackStale(): void {
    const { hand, pace, givingBack, onRoom, steadyNow } = this.#parts;
    const stale = hand.reserve.takeStale(steadyNow());
    if (stale.length > 0) {
      pace.forget(performance.now());
      // Until then it counted as if there were no room.
      void givingBack.giveBack(stale).then(onRoom);
    }
    this.#beginReserved();
  }

  /** What waits for a slot and has not begun: all, or these claims. Resolves when others may have it. */
  giveBackReserved(claims?: ReadonlySet<ClaimId>): Promise<void> {
    const { hand, givingBack } = this.#parts;
    if (!claims) clearTimeout(this.#staleTimer);
    return givingBack.giveBack(claims ? hand.reserve.takeThese(claims) : hand.reserve.takeAll());
  }

  /** Claimed under our id without our knowing: whatever their state, none of their code has run. */
  adopt(adopted: readonly ClaimedTask[], asked: Asked): void {
    for (const task of adopted) this.#parts.events.emit("claim.adopted", refOf(task));
    this.take(adopted, asked);
  }

  /**
   * They have run here, and are on record as running: each goes on as after a crash of its worker, uncharged. One that the database refuses to
   * end, or that somebody has locked, does not hold up the others. It stays on record as unknown, so the claim watch asks for it to be tried again.
   */
  async endForgotten(forgotten: readonly ClaimedTask[], under: ReplicaId): Promise<void> {
    const { database, tasks, events, outages, recovery: policy } = this.#parts;
    const ends = forgotten.map((task) => {
      const { settings } = tasks.get(task.name) as AnyTask;
      return { task, outcome: forgottenOutcome(task, under, settings, { policy, random: Math.random() }) };
    });
    const end = async (some: readonly (typeof ends)[number][]) => {
      await endHeldClaims(
        database,
        some.map(({ outcome }) => outcome),
      );
      return some;
    };
    const passBy = async (_: unknown, error: unknown) => {
      outages.noticed(error, "ending tasks whose end was forgotten");
      return [];
    };
    const ended = await inHalves(ends, end, passBy, isAboutSomeRows);
    for (const { task, outcome } of ended) {
      events.emit("claim.forgotten", { ...refOf(task), willRunAgain: outcome.to === "pending" });
    }
  }

  /** One statement at a time starts all for which there is a slot; durable before any of their code runs. */
  async #startPrefetched(): Promise<void> {
    if (this.#isStarting || this.#parts.isStopping()) return;
    this.#isStarting = true;
    try {
      while (!this.#parts.isStopping()) {
        const groups = this.#parts.hand.takeStartable();
        if (groups.length === 0) return;
        await this.#startGroups(groups);
      }
    } finally {
      this.#isStarting = false;
    }
  }

  async #startGroups(groups: readonly Group[]): Promise<void> {
    const all = groups.flatMap((group) => group.members);
    const asked = { under: this.#parts.execution.replica.id, atMs: this.#parts.steadyNow() };
    const reply = await startClaims(this.#parts.database, all).catch((error: unknown) => {
      // Not known whether they are running now. Forgotten here, found again by the claimer, which looks for its own.
      this.#parts.outages.noticed(error, "starting tasks");
      return undefined;
    });
    if (!reply) {
      this.#parts.hand.dropStarting(all);
      this.#parts.received.noteNeverBegun(all);
      this.#parts.onUnsure();
    }
    const running = new Set(reply?.started);
    const locked = new Set(reply?.locked);
    const mayBegin = this.#mayBegin(asked);
    for (const group of groups) {
      const held = group.members.filter((member) => running.has(member.claimId));
      const members = mayBegin ? held : [];
      if (!mayBegin) this.#giveBackUnbegun(held, "running", asked.under);
      // It takes no slot while it is locked. Whoever claims it after that runs it.
      const waiting = group.members.filter((member) => locked.has(member.claimId));
      if (waiting.length > 0) this.#giveBackUnbegun(waiting, "claimed", asked.under);
      const isLost = ({ claimId }: ClaimedTask) => !running.has(claimId) && !locked.has(claimId);
      const lost = reply ? group.members.filter(isLost) : [];
      this.#parts.hand.dropStarting(lost);
      for (const member of lost) this.#parts.events.emit("claim.lost", { ...refOf(member), refusedOutcome: undefined });
      if (members.length > 0) this.#run({ task: group.task, members });
      else this.#parts.slots.give(group.members[0]?.queue ?? "", group.task.settings.runIn);
    }
    this.#parts.changes.announce();
    this.#beginReserved();
  }

  #giveBackUnbegun(members: readonly ClaimedTask[], state: ClaimedTask["state"], under: ReplicaId): void {
    this.#parts.hand.dropStarting(members);
    const tasks = members.map((member) => ({ ...member, state }));
    void this.#parts.givingBack.giveBack([{ tasks, under }]);
  }

  #run({ task, members }: Group): void {
    const isHeard = this.#parts.events.isHeard("task.started");
    const atMs = performance.now();
    const executions = members.map((member) => this.#begin(task, member, atMs, isHeard));
    runGroup(executions, this.#listener);
  }

  #begin(task: AnyTask, claimed: ClaimedTask, atMs: number, isHeard: boolean): Execution {
    const { hand, events, execution: parts } = this.#parts;
    const execution = new Execution(task, claimed, parts, atMs);
    hand.begin(execution);
    if (isHeard) events.emit("task.started", refOf(claimed));
    return execution;
  }

  #onOver({ claimed, task }: Execution): void {
    const { hand, slots, changes, onRoom } = this.#parts;
    slots.give(claimed.queue, task.settings.runIn);
    changes.announce();
    this.#beginReserved();
    if (hand.prefetched > 0) void this.#startPrefetched();
    onRoom();
  }

  #onEnding(execution: Execution, ending: Ending): void {
    const { events, hand, rounds, reports, pace, company, execution: parts } = this.#parts;
    const { claimed, task, abortReason, completedInTransaction } = execution;
    if (ending.kind === "abandoned") {
      const reason = abortReason instanceof Error ? abortReason.message : String(abortReason);
      events.emit("handler.abandoned", { ...refOf(claimed), reason });
    }
    const ref = { claim: claimed.claimId, task: claimed.taskId, replica: parts.replica.id };
    const { failures } = claimed;
    const onUnlessThrew =
      ending.kind === "returned" ? undefined : (error: unknown) => tellOfUnlessThrew(events, refOf(claimed), error);
    const outcome =
      this.#crashOutcome(execution, ending) ??
      outcomeOf(
        {
          ref,
          failures,
          ending: ending as Exclude<Ending, Crashed>,
          abortReason,
          stoppingForMs: execution.stoppingForMs,
          completedInTransaction,
          onUnlessThrew,
        },
        task.settings,
        Math.random(),
      );
    hand.finishing();
    if (!outcome) {
      reports.forget(claimed.claimId);
      hand.finished(execution);
      return;
    }
    const endedAtMs = performance.now();
    const durationMs = endedAtMs - execution.startedAtMs;
    pace.count(durationMs);
    company.noteEnd(claimed.taskId, ending.kind === "crashed", endedAtMs);
    const ended = { execution, outcome, durationMs };
    const settled = reports.settle(claimed.claimId, outcome.outcome === "completed");
    if (settled) void settled.then(() => rounds.finish(ended));
    else rounds.finish(ended);
  }

  /** Undefined where it is no crash. */
  #crashOutcome(execution: Execution, ending: Ending): Outcome | undefined {
    const { claimed, task, abortReason, completedInTransaction, ownStop } = execution;
    const isByOwnStop = ownStop && ending.kind !== "returned" && abortReason instanceof WorkerStoppingError;
    if (ending.kind !== "crashed" && !isByOwnStop) return undefined;
    const { claimId, taskId, crashes, suspicion } = claimed;
    const ref = { claim: claimId, task: taskId, replica: this.#parts.execution.replica.id };
    const attempt = { ref, crashes, suspicion, completedInTransaction };
    const after = { settings: task.settings, policy: this.#parts.recovery, random: Math.random() };
    if (ending.kind === "crashed") {
      const company = this.#parts.company.companyOf(ending.death, performance.now());
      return runnerCrashOutcomeOf(attempt, { death: ending.death, company }, after);
    }
    return ownStop && ownStopOutcomeOf(attempt, { ...ownStop, hostname: hostname() }, after);
  }

  /** It is known what became of their outcomes. */
  onStatuses(ended: readonly EndedExecution[], statuses: readonly OutcomeStatus[]): void {
    const { events, hand, onWritten } = this.#parts;
    const isHeard = events.isHeard("task.ended");
    for (let index = 0; index < ended.length; index++) {
      const one = ended[index] as EndedExecution;
      const status = statuses[index] as OutcomeStatus;
      // Stays known: its code has run, so it must not be taken for a claim whose reply was lost.
      if (status === "given-up") continue;
      hand.finished(one.execution);
      if (isHeard || status !== "done") tellOfEnd(events, one, status);
    }
    onWritten();
  }
}
