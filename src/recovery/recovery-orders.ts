/** Finding and recovering by hand, also where automatic recovery is switched off. */

import { checkOptions, isBoolean, isDuration, isListOf, isOneOf } from "../config/checks.ts";
import type { Duration } from "../config/duration.ts";
import { Problems } from "../config/problems.ts";
import type { RecoverySettings } from "../config/recovery-options.ts";
import type { Database } from "../database/database.ts";
import { inHalves } from "../database/in-halves.ts";
import { isAboutSomeRows } from "../database/transient.ts";
import type { Events } from "../events.ts";
import { readTaskFacts } from "../sql/explain-task.ts";
import { type ReplicaSettings, readActingSettings, readFleetSettings, readSettingsOf } from "../sql/fleet-settings.ts";
import { confirmHolds } from "../sql/holds.ts";
import { listMachines, type MachineRow } from "../sql/machines.ts";
import type { Outcome } from "../sql/outcomes.ts";
import type { PostMortemRow } from "../sql/post-mortems.ts";
import { type Freed, NOTHING_FREED, recoverClaims, releaseAbsent } from "../sql/recover-claims.ts";
import { type Listening, readListening } from "../sql/recovery.ts";
import { readUnrest } from "../sql/reliability.ts";
import { listReplicas } from "../sql/replicas.ts";
import { isUnheardSince, type StaleFilter } from "../sql/stale-tasks.ts";
import type { GroupMemory } from "../task/death.ts";
import { TaskNotFoundError } from "../task/errors.ts";
import { isReplicaId, isTaskId, toTaskIds } from "../task/id-checks.ts";
import { isUuid, type ReplicaId, type TaskId } from "../task/ids.ts";
import { isName } from "../task/settings.ts";
import { deathByHand } from "./by-hand.ts";
import { EXIT_RULES, type ExitOptions } from "./exit-options.ts";
import { type Explanation, explain } from "./explain.ts";
import { heartStateOf, type ReplicaWithHeart } from "./heart-state.ts";
import { HoldLockedError } from "./hold-locked.ts";
import { MISSED_BEATS } from "./limits.ts";
import { LockedTaskError } from "./locked-task.ts";
import { PartlyRecoveredError, type RefusedRecovery } from "./partly-recovered.ts";
import { findPostMortems, type PostMortemQuery } from "./post-mortem-query.ts";
import { PostMortems } from "./post-mortems.ts";
import { QuarantineOrders } from "./quarantine.ts";
import { byHandError } from "./recovery-action.ts";
import { FLAPPING, type Reliability, reliabilityOf } from "./reliability.ts";
import { type ExitReport, reportExit } from "./report-exit.ts";
import { ReviewOrders } from "./review.ts";
import { findStaleTasks, type StaleTask } from "./stale-tasks.ts";
import { sweepPatienceMs } from "./sweeping.ts";
import { readUnsure, type Unsure } from "./unsure.ts";

export interface StaleQuery {
  /**
   * How long the owner must have been silent (default: its own thresholds, by state). Never less than its heart takes to stop its own work,
   * so that nothing is taken from a worker that is well.
   */
  after?: Duration | undefined;
  state?: "claimed" | "running" | undefined;
  name?: string | undefined;
  queue?: string | undefined;
  replicaId?: string | undefined;
  ids?: readonly string[] | undefined;
}

export interface RecoveryCount {
  readonly count: number;
  readonly ids: readonly TaskId[];
}

export const isStaleAfter = isDuration({ minMs: 0, maxMs: 365 * 86_400_000 });
export const STALE_RULES = {
  after: isStaleAfter,
  state: isOneOf(["claimed", "running"]),
  name: isName,
  queue: isName,
  replicaId: isReplicaId,
  ids: isListOf(isTaskId),
};
const SHAPE = { ...STALE_RULES, dryRun: isBoolean };

export interface ConfirmOptions {
  source?: string | undefined;
}

export const CONFIRM_RULES = { source: isName };

export class RecoveryOrders {
  /** Tasks that failed because their worker died: what somebody should look at. */
  readonly review: ReviewOrders;
  /** Tasks that are not tried again, because they kill their workers. */
  readonly quarantine: QuarantineOrders;
  readonly #database: Database;
  readonly #events: Events;
  readonly #settings: RecoverySettings;

  constructor(database: Database, events: Events, settings: RecoverySettings) {
    this.#database = database;
    this.#events = events;
    this.#settings = settings;
    this.review = new ReviewOrders(database);
    this.quarantine = new QuarantineOrders(database);
  }

  /** Why this task is where it is, in plain words, with the evidence. */
  async explain(id: string): Promise<Explanation> {
    const facts = await readTaskFacts(this.#database, toTaskIds([id])[0] as TaskId, MISSED_BEATS);
    if (!facts) throw new TaskNotFoundError(id);
    return explain(facts, this.#settings);
  }

  /** The settings by which recovery acts: those of the replica that swept last, else of one that could, else of the last that was here, else our own. */
  async settings(): Promise<RecoverySettings> {
    return (await readActingSettings(this.#database)) ?? this.#settings;
  }

  /** The settings of every replica that could sweep, the one that did last first. */
  fleetSettings(): Promise<readonly ReplicaSettings[]> {
    return readFleetSettings(this.#database);
  }

  /** Tasks whose owner is not alive, or has been silent for that long. */
  async findStale(query: StaleQuery = {}): Promise<readonly StaleTask[]> {
    const { afterMs, filter } = checkStale(query);
    return this.#find(afterMs, filter);
  }

  /** Null: what `findStale` says is sure. Else nobody knows whether the owners of these tasks are alive. */
  async unsure(query: StaleQuery = {}): Promise<Unsure | null> {
    const { afterMs, filter } = checkStale(query);
    return readUnsure({ database: this.#database, replicas: await this.replicas() }, afterMs, filter);
  }

  /** Fails running tasks of silent owners, whatever their `onCrash` says. */
  async failStaleRunning(query: StaleQuery & { dryRun?: boolean } = {}): Promise<RecoveryCount> {
    const { afterMs, filter, dryRun } = checkStale(query);
    const stale = await this.#find(afterMs, { ...filter, state: "running" });
    if (dryRun || stale.length === 0) return counted(stale);
    return this.#recover(stale, "failed", (owner, tasks) =>
      recoverClaims(this.#database, owner, tasks.map(failedByHand), []),
    );
  }

  /** Gives back tasks that a silent owner had claimed and not started. */
  async requeueStaleClaimed(query: StaleQuery & { dryRun?: boolean } = {}): Promise<RecoveryCount> {
    const { afterMs, filter, dryRun } = checkStale(query);
    const stale = await this.#find(afterMs, { ...filter, state: "claimed" });
    if (dryRun || stale.length === 0) return counted(stale);
    return this.#recover(stale, "released", (owner, tasks) =>
      releaseAbsent(
        this.#database,
        owner,
        tasks.map(({ id, claimId }) => ({ claimId, taskId: id })),
      ),
    );
  }

  /**
   * Says that those on whose account recovery is held are dead indeed: those of one source of silence (`hearts`), or of all that are held. Returns
   * the sources that this was said of; none where nothing is held. HOLD_LOCKED where another transaction keeps a hold locked.
   */
  async confirmDeaths(of: ConfirmOptions = {}): Promise<readonly string[]> {
    const problems = new Problems();
    const { source } = checkOptions(of, CONFIRM_RULES, { path: "", problems });
    problems.throwIfAny("The confirmation of deaths");
    const { confirmed, locked } = await confirmHolds(this.#database, source);
    if (locked.length > 0) throw new HoldLockedError(locked, confirmed);
    return confirmed;
  }

  /** What processes and attempts probably died of, with the evidence; the latest first. */
  postMortems(query: PostMortemQuery = {}): Promise<readonly PostMortemRow[]> {
    return findPostMortems(this.#database, query);
  }

  /** How often the processes of each machine died or fell silent. */
  async reliability(): Promise<readonly Reliability[]> {
    // Whoever sweeps removes what is older than its own settings say: the record goes back no further.
    const { postMortemAgeMs } = await this.settings();
    const spans = { latelyMs: FLAPPING.withinMs, recordMs: postMortemAgeMs };
    return (await readUnrest(this.#database, spans)).map(reliabilityOf);
  }

  /**
   * For whoever starts worker processes: this one has ended, seen at first hand. Unless it had left by itself, it is declared
   * dead once its database session has ended too, and its tasks are recovered at once, by the settings that it worked by.
   */
  async reportExit(replicaId: string, exit: ExitOptions): Promise<ExitReport> {
    const problems = new Problems();
    const { exitCode, signal, group, wasAsked, sharedWith } = checkOptions(exit, EXIT_RULES, { path: "", problems });
    if (!isUuid(replicaId)) problems.add("replicaId", "must be a replica's id");
    problems.throwIfAny("The report of an exit");
    const ended = replicaId as ReplicaId;
    const settings = (await readSettingsOf(this.#database, ended)) ?? this.#settings;
    return reportExit(
      { database: this.#database, events: this.#events, settings, random: Math.random },
      {
        ...{ replicaId: ended, exitCode: exitCode ?? null, signal: signal ?? null, wasAsked: wasAsked ?? false },
        group: group as GroupMemory | undefined,
        sharedWith: sharedWith as readonly ReplicaId[] | undefined,
      },
    );
  }

  async machines(): Promise<readonly MachineRow[]> {
    return listMachines(this.#database, sweepPatienceMs((await this.settings()).checkMs));
  }

  /** The worker processes on record, and how their hearts are doing. */
  async replicas(): Promise<readonly ReplicaWithHeart[]> {
    const settings = await this.settings();
    const rows = await listReplicas(this.#database, sweepPatienceMs(settings.checkMs));
    return rows.map((row) => ({ ...row, heart: heartStateOf(row, settings) }));
  }

  /** The reapers' own state; undefined where none has ever listened. */
  listening(): Promise<Listening | undefined> {
    return readListening(this.#database);
  }

  async #find(afterMs: number | undefined, filter: StaleFilter): Promise<StaleTask[]> {
    return findStaleTasks({ database: this.#database, settings: await this.settings() }, afterMs, filter);
  }

  /**
   * Owner by owner. One that the database refuses, or that somebody has locked, does not keep the others from being recovered: the error that is
   * thrown in the end says what was done and what was not. One that has ended meanwhile is neither, nor are those of an owner that was heard
   * meanwhile.
   */
  async #recover(
    stale: readonly StaleTask[],
    action: "failed" | "released",
    free: (owner: ReplicaId, tasks: readonly StaleTask[]) => Promise<Freed>,
  ): Promise<RecoveryCount> {
    const done: StaleTask[] = [];
    const refused: RefusedRecovery[] = [];
    const onRefused = async ({ id }: StaleTask, error: unknown) => {
      refused.push({ id, error });
      return [];
    };
    for (const [owner, all] of byOwner(stale)) {
      const freeSome = async (tasks: readonly StaleTask[]) => {
        const isUnheard = await isUnheardSince(this.#database, owner, all[0]?.beatAt ?? null);
        const freed = isUnheard ? await free(owner, tasks) : NOTHING_FREED;
        for (const { id, claimId } of tasks)
          if (freed.locked.includes(claimId)) refused.push({ id, error: new LockedTaskError(id) });
        return tasks.filter(({ claimId }) => freed.done.includes(claimId));
      };
      const freed = await inHalves(all, freeSome, onRefused, isAboutSomeRows);
      if (action === "failed") await this.#examine(freed);
      done.push(...freed);
    }
    this.#tell(done, action);
    const { count, ids } = counted(done);
    if (refused.length > 0) throw new PartlyRecoveredError(ids, refused);
    return { count, ids };
  }

  /** Attempts of one owner. Those that ended by its death have post-mortems, whoever ends them. */
  async #examine(failed: readonly StaleTask[]): Promise<void> {
    const dead = failed.filter(({ isOwnerDead }) => isOwnerDead);
    const [first] = dead;
    if (!first) return;
    const part = "its part in it: not known, since it was failed by hand; it is charged with the crash";
    const attempts = dead.map(({ id, claimId, name, owner }) => ({
      taskId: id,
      claimId,
      name,
      replicaId: owner,
      part,
    }));
    const postMortems = new PostMortems({ database: this.#database, events: this.#events });
    await postMortems.writeAttempts(deathByHand(first), attempts);
  }

  #tell(done: readonly StaleTask[], action: "failed" | "released"): void {
    for (const { id, claimId, name, attempt, owner } of done) {
      this.#events.emit("task.recovered", {
        taskId: id,
        claimId,
        name,
        attempt,
        replicaId: owner,
        action,
        because: "by-hand",
      });
    }
  }
}

export function checkStale(query: unknown) {
  const problems = new Problems();
  const { after, dryRun = false, ...filter } = checkOptions(query, SHAPE, { path: "", problems });
  problems.throwIfAny("The choice of stale tasks");
  return { afterMs: after, filter: filter as StaleFilter, dryRun };
}

/** Together those of one: an owner that is not on record has to be named. */
function byOwner(stale: readonly StaleTask[]): ReadonlyMap<ReplicaId, readonly StaleTask[]> {
  const groups = new Map<ReplicaId, StaleTask[]>();
  for (const task of stale) {
    const group = groups.get(task.owner);
    if (group) group.push(task);
    else groups.set(task.owner, [task]);
  }
  return groups;
}

/** An operator's order is no evidence of a crash. If the task is taken from a worker that is alive, no crash is counted. */
function failedByHand(task: StaleTask): Outcome {
  const { owner, hostname, silentForMs, isOwnerDead } = task;
  return {
    ...{ claim: task.claimId, task: task.id, replica: owner, to: "failed", outcome: "failed" },
    ...(isOwnerDead ? { crashes: task.crashes + 1 } : {}),
    error: byHandError({
      replicaId: owner,
      hostname: hostname ?? undefined,
      silentForMs: silentForMs ?? undefined,
      isOwnerDead,
    }),
  };
}

function counted(tasks: readonly StaleTask[]): RecoveryCount {
  return { count: tasks.length, ids: tasks.map((task) => task.id) };
}
