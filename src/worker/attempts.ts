/** From claimed to written: starts what there is a slot for, runs it, and hands its outcome to be written. */
import type { Database } from "../database/database.ts";
import type { Events, TaskRef } from "../events.ts";
import type { RecoveryPolicy } from "../recovery/recovery-action.ts";
import { type ClaimedTask, startClaims } from "../sql/claims.ts";
import type { Outcome } from "../sql/outcomes.ts";
import type { AnyTask } from "../task/define-task.ts";
import { ClaimLostError } from "../task/errors.ts";
import type { Asked } from "./claimer.ts";
import { crashOutcomeOf } from "./crash-outcome.ts";
import { type EndingListener, Execution } from "./execution.ts";
import type { ExecutionParts } from "./execution-parts.ts";
import { giveBack } from "./give-back.ts";
import type { Group, Hand } from "./hand.ts";
import type { Outages } from "./outages.ts";
import { type Ending, outcomeOf } from "./outcome.ts";
import type { Pace } from "./pace.ts";
import type { Reports } from "./reports.ts";
import { type Lot, STALE_AFTER_MS } from "./reserve.ts";
import type { Rounds, Verdict } from "./rounds.ts";
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
  readonly outages: Outages;
  readonly changes: Changes;
  readonly execution: ExecutionParts;
  /** What becomes of a task whose runner crashes. */
  readonly recovery: RecoveryPolicy;
  readonly isStopping: () => boolean;
  /** Whether what was asked for then may still be begun: not once others may have been told that it stops. */
  readonly mayBegin: (asked: Asked) => boolean;
  /** There is a slot for another task. */
  readonly onRoom: () => void;
  /** An outcome was written. */
  readonly onWritten: () => void;
  /** A reply was lost: there may be claims that are ours without our knowing. */
  readonly onUnsure: () => void;
}

/** An attempt that is over, with an outcome to be written. */
export interface EndedExecution {
  readonly execution: Execution;
  readonly outcome: Outcome;
  readonly durationMs: number;
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
    const { under } = asked;
    if (!this.#parts.mayBegin(asked)) {
      void this.#giveBack([{ tasks: claimed, under }]);
      return;
    }
    const { hand } = this.#parts;
    const sinceMs = performance.now();
    const ahead = claimed.filter((task) => task.state === "claimed");
    if (ahead.length > 0) hand.addPrefetched(ahead, sinceMs);
    const running = ahead.length > 0 ? claimed.filter((task) => task.state === "running") : claimed;
    hand.reserve.add({ tasks: running, under, sinceMs });
    this.#beginReserved();
    if (hand.prefetched > 0) void this.#startPrefetched();
  }

  /** As many as there are slots for. A handler that ends at once comes back here, where the next is begun already. */
  #beginReserved(): void {
    const { hand, slots, tasks, events, isStopping } = this.#parts;
    if (this.#isBeginning || hand.reserve.size === 0 || isStopping()) return;
    this.#isBeginning = true;
    const nowMs = performance.now();
    const isHeard = events.isHeard("task.started");
    while (slots.free > 0) {
      const claimed = hand.reserve.take(nowMs);
      if (!claimed) break;
      const task = tasks.get(claimed.name) as AnyTask;
      slots.take(claimed.queue, task.settings.runIn);
      runOne(this.#begin(task, claimed, isHeard), this.#listener);
    }
    this.#isBeginning = false;
    if (hand.reserve.size > 0) this.#staleTimer ??= setTimeout(() => this.#onStale(), STALE_AFTER_MS);
  }

  #onStale(): void {
    const { hand } = this.#parts;
    this.#staleTimer = undefined;
    void this.#giveBack(hand.reserve.takeStale(performance.now()));
    this.#beginReserved();
  }

  /** What waits for a slot and has not begun. Resolves when others may have it. */
  giveBackReserved(): Promise<void> {
    clearTimeout(this.#staleTimer);
    this.#staleTimer = undefined;
    return this.#giveBack(this.#parts.hand.reserve.takeAll());
  }

  /** None of their code has run. */
  async #giveBack(lots: readonly Pick<Lot, "tasks" | "under">[]): Promise<void> {
    const { database, hand, outages, onUnsure } = this.#parts;
    const claims = hand.releasing(lots);
    for (const { tasks, under } of lots) {
      await giveBack(database, under, tasks).catch((error: unknown) => {
        // Not known whether they were given back. Forgotten here, found again if they are still ours.
        outages.noticed(error, "giving tasks back");
        onUnsure();
      });
    }
    hand.released(claims);
  }

  /** Claimed under our id without our knowing: whatever their state, none of their code has run. */
  adopt(adopted: readonly ClaimedTask[], asked: Asked): void {
    for (const task of adopted) this.#parts.events.emit("claim.adopted", refOf(task));
    this.take(adopted, asked);
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
    const claims = groups.flatMap((group) => group.members.map((member) => member.claimId));
    const asked = { under: this.#parts.execution.replica.id, atMs: performance.now() };
    const started = await startClaims(this.#parts.database, claims).catch((error: unknown) => {
      // Not known whether they are running now. Forgotten here, found again by the claimer, which looks for its own.
      this.#parts.outages.noticed(error, "starting tasks");
      return undefined;
    });
    if (!started) {
      this.#parts.hand.dropStarting(claims);
      this.#parts.onUnsure();
    }
    const running = new Set(started);
    const mayBegin = this.#parts.mayBegin(asked);
    for (const group of groups) {
      const held = group.members.filter((member) => running.has(member.claimId));
      const members = mayBegin ? held : [];
      if (!mayBegin) {
        this.#parts.hand.dropStarting(held.map((member) => member.claimId));
        void this.#giveBack([{ tasks: held.map((member) => ({ ...member, state: "running" })), under: asked.under }]);
      }
      const lost = started ? group.members.filter((member) => !running.has(member.claimId)) : [];
      this.#parts.hand.dropStarting(lost.map((member) => member.claimId));
      for (const member of lost) this.#parts.events.emit("claim.lost", { ...refOf(member), refusedOutcome: undefined });
      if (members.length > 0) this.#run({ task: group.task, members });
      else this.#parts.slots.give(group.members[0]?.queue ?? "", group.task.settings.runIn);
    }
    this.#parts.changes.announce();
  }

  #run({ task, members }: Group): void {
    const isHeard = this.#parts.events.isHeard("task.started");
    const executions = members.map((member) => this.#begin(task, member, isHeard));
    runGroup(executions, this.#listener);
  }

  #begin(task: AnyTask, claimed: ClaimedTask, isHeard: boolean): Execution {
    const { hand, events, execution: parts } = this.#parts;
    const execution = new Execution(task, claimed, parts);
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
    const { events, hand, rounds, reports, pace, execution: parts } = this.#parts;
    const { claimed, task, abortReason, completedInTransaction } = execution;
    if (ending.kind === "abandoned") {
      const reason = abortReason instanceof Error ? abortReason.message : String(abortReason);
      events.emit("handler.abandoned", { ...refOf(claimed), reason });
    }
    const ref = { claim: claimed.claimId, task: claimed.taskId, replica: parts.replica.id };
    const { failures, crashes } = claimed;
    const outcome =
      ending.kind === "crashed"
        ? crashOutcomeOf(
            { ref, crashes, death: ending.death, completedInTransaction },
            task.settings,
            this.#parts.recovery,
            Math.random(),
          )
        : outcomeOf({ ref, failures, ending, abortReason, completedInTransaction }, task.settings, Math.random());
    hand.finishing();
    if (!outcome) {
      reports.forget(claimed.claimId);
      hand.finished(execution);
      return;
    }
    const durationMs = performance.now() - execution.startedAtMs;
    pace.count(durationMs);
    const ended = { execution, outcome, durationMs };
    const settled = reports.settle(claimed.claimId, outcome.outcome === "completed");
    if (settled) void settled.then(() => rounds.finish(ended));
    else rounds.finish(ended);
  }

  /** It is known what became of their outcomes. */
  onVerdicts(ended: readonly EndedExecution[], verdicts: readonly Verdict[]): void {
    const { events, hand, onWritten } = this.#parts;
    const isHeard = events.isHeard("task.ended");
    for (let index = 0; index < ended.length; index++) {
      const one = ended[index] as EndedExecution;
      const verdict = verdicts[index] as Verdict;
      // Stays known: its code has run, so it must not be taken for a claim whose reply was lost.
      if (verdict === "given-up") continue;
      hand.finished(one.execution);
      if (isHeard || verdict !== "done") this.#tell(one, verdict);
    }
    onWritten();
  }

  #tell({ execution, outcome, durationMs }: EndedExecution, verdict: Verdict): void {
    const { events } = this.#parts;
    const { claimed } = execution;
    const ref = refOf(claimed);
    if (verdict === "late") {
      execution.abort(new ClaimLostError(claimed.claimId, claimed.taskId));
      events.emit("claim.lost", { ...ref, refusedOutcome: outcome.outcome });
      return;
    }
    const isConfirmed = verdict === "repeat" && outcome.confirm === true;
    if (verdict === "repeat" && !isConfirmed) events.emit("outcome.repeated", ref);
    events.emit("task.ended", {
      ...ref,
      outcome: isConfirmed ? "completed" : outcome.outcome,
      durationMs,
      willRunAgain: outcome.to === "pending" && !isConfirmed,
      error: isConfirmed ? undefined : outcome.error,
    });
  }
}

export function refOf(claimed: ClaimedTask): TaskRef {
  return { taskId: claimed.taskId, claimId: claimed.claimId, name: claimed.name, attempt: claimed.attempt };
}
