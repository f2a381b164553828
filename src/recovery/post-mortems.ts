/**
 * Asks what the dead died of, and writes it down. Never in the way of recovery: it waits for a bounded time only, and what could not
 * be written is reported and left.
 */
import type { Database, Store } from "../database/database.ts";
import { inHalves } from "../database/in-halves.ts";
import { isAboutSomeRows, isAboutTheValues } from "../database/transient.ts";
import type { Events } from "../events.ts";
import {
  type DeadReplica,
  findUnexamined,
  limitPatience,
  type NewPostMortem,
  readConclusions,
  readUnexamined,
  writePostMortems,
} from "../sql/post-mortems.ts";
import { readDeath } from "../task/death.ts";
import { toErrorRecord } from "../task/error-record.ts";
import type { ClaimId, ReplicaId } from "../task/ids.ts";
import { type DeathEvidence, evidenceLines } from "./death-evidence.ts";
import { LAST_SIGNS } from "./last-signs.ts";
import { LATEST_BEAT, MISSED_BEATS } from "./limits.ts";
import { groupAtLast, memoryOutlook } from "./memory-outlook.ts";
import type { PassedBy } from "./passed-by.ts";
import { probableCause } from "./probable-cause.ts";
import type { Death } from "./recovery-action.ts";

/** What the tasks and the heart said last, where that is on record. */
export interface LastSigns {
  readonly ofTasks?: (
    tx: Store,
    replicaId: ReplicaId,
    claims: readonly ClaimId[],
  ) => Promise<ReadonlyMap<ClaimId, TaskSigns>>;
  readonly stackOf?: (tx: Store, replicaId: ReplicaId) => Promise<string | undefined>;
}

/** The stack is that of its runner. */
export type TaskSigns = Pick<DeathEvidence, "phase" | "log" | "stack" | "isThread">;

export interface Told {
  readonly cause: string;
  readonly sentence: string;
  readonly evidence: readonly string[];
}

export type DeadRunner = Pick<NewPostMortem, "runnerId" | "replicaId" | "taskId" | "claimId" | "name" | "hostname">;

/** An attempt that ended because its process did. */
export interface AttemptOfDeath {
  readonly replicaId: ReplicaId;
  readonly taskId: NonNullable<NewPostMortem["taskId"]>;
  readonly claimId: ClaimId;
  readonly name: string;
  /** Its part in it, in words. */
  readonly part: string;
}

/** How long a statement may take, and how long it may wait for a lock: a post-mortem that waits is found by halves, with a wait for each. */
const PATIENCE = { statementMs: 2_000, lockMs: 250 };
/** After this long nothing more is begun: where so many are refused one by one, it is the table that cannot be written. */
const ENOUGH_MS = 5_000;
/** After a failure that is not about some of them, so that a table that cannot be written does not delay every sweep. */
const REST_MS = 30_000;
const BATCH = 100;
/** The part of the sweep that tells of replicas that cannot be examined. */
export const POST_MORTEMS = "post-mortems";

/** Does something in a transaction whose statements have little time. */
type InTransaction = <T>(act: (tx: Store) => Promise<T>) => Promise<T>;

export class PostMortems {
  readonly #database: Database;
  readonly #events: Events;
  readonly #signs: LastSigns;
  #restsUntil = Number.NEGATIVE_INFINITY;

  constructor(parts: { database: Database; events: Events; lastSigns?: LastSigns | undefined }) {
    this.#database = parts.database;
    this.#events = parts.events;
    this.#signs = parts.lastSigns ?? LAST_SIGNS;
  }

  /**
   * Every replica that was declared dead, by whomever, and that nobody has asked about yet. Returns what is on record of those
   * that are named: of none of them, where that cannot be read.
   */
  async examineDead(replicas: readonly ReplicaId[], passedBy: PassedBy): Promise<ReadonlyMap<ReplicaId, Told>> {
    await this.#try("examining dead replicas", (inTransaction) => this.#examineNew(inTransaction, passedBy));
    if (replicas.length === 0) return new Map();
    const told = await this.#try("reading what the dead died of", (inTransaction) =>
      inTransaction((tx) => readConclusions(tx, replicas)),
    );
    return new Map((told ?? []).map((one) => [one.replicaId, one]));
  }

  /** What is refused here is told and left: nobody comes back to the attempts of the dead. */
  async writeAttempts(death: Death, attempts: readonly AttemptOfDeath[]): Promise<void> {
    const write = async (inTransaction: InTransaction, part: readonly AttemptOfDeath[]) => {
      await inTransaction((tx) => this.#writePartOf(tx, death, part));
      return [];
    };
    const tell = async ({ taskId, name }: AttemptOfDeath, error: unknown) => {
      this.#events.emit("post-mortem.failed", { doing: `writing the post-mortem of task ${taskId} (${name})`, error });
      return [];
    };
    await this.#try("writing the post-mortems of attempts", (inTransaction) =>
      inHalves(attempts, (part) => write(inTransaction, part), tell, isAboutSomeRows),
    );
  }

  /** Of a runner, whose replica has seen how it ended; one for each task that was in it. What is concluded is known also where it cannot be written. */
  async writeRunner(subjects: readonly DeadRunner[], evidence: DeathEvidence): Promise<Told> {
    const told = probableCause(evidence);
    const doing = "writing the post-mortem of a runner";
    const write = async (tx: Store) => {
      const claims = subjects.flatMap(({ claimId }) => claimId ?? []);
      const signs = await this.#signs.ofTasks?.(tx, subjects[0]?.replicaId as ReplicaId, claims);
      const complete = ({ claimId }: DeadRunner) =>
        evidenceLines({ ...evidence, ...(claimId ? signs?.get(claimId) : {}) });
      const found = subjects.map((of) => ({ kind: "runner" as const, ...of, ...told, evidence: complete(of) }));
      await writePostMortems(tx, found);
    };
    await this.#try(doing, (inTransaction) => inTransaction(write), isAboutSomeRows);
    return told;
  }

  async #examineNew(inTransaction: InTransaction, passedBy: PassedBy): Promise<void> {
    const limit = BATCH + passedBy.count;
    const dead = await inTransaction((tx) => findUnexamined(tx, limit));
    const examine = async (some: readonly ReplicaId[]) => {
      const examined = await inTransaction((tx) => this.#examinePartOf(tx, some));
      for (const { kind, replicaId, cause, sentence } of examined)
        if (kind === "replica" && replicaId) this.#events.emit("replica.examined", { replicaId, cause, sentence });
      return [];
    };
    await passedBy.inHalves(dead, (replicaId) => `the post-mortem of replica ${replicaId}`, examine);
    // Where there are more, some that are passed by may not have been met.
    if (dead.length < limit) await passedBy.settle();
  }

  async #examinePartOf(tx: Store, replicas: readonly ReplicaId[]): Promise<readonly NewPostMortem[]> {
    const found: NewPostMortem[] = [];
    const beats = { missed: MISSED_BEATS, latest: LATEST_BEAT };
    for (const replica of await readUnexamined(tx, replicas, beats)) found.push(...(await this.#examine(tx, replica)));
    await writePostMortems(tx, found);
    return found;
  }

  /** Of the replica, and of the attempts for which its heart ended it: these had ended before, so that no recovery meets them. */
  async #examine(tx: Store, replica: DeadReplica): Promise<NewPostMortem[]> {
    const stack = await this.#signs.stackOf?.(tx, replica.replicaId);
    const { replicaId, hostname, diedAt } = replica;
    const of = { replicaId, hostname, happenedAt: diedAt, ...concludeOn(replica, stack) };
    const { timedOut = [] } = readDeath(replica.death);
    return [
      { kind: "replica", ...of },
      ...timedOut.map((attempt) => ({ kind: "attempt" as const, ...of, ...attempt })),
    ];
  }

  async #writePartOf(tx: Store, death: Death, attempts: readonly AttemptOfDeath[]): Promise<void> {
    const replicaId = death.replicaId as ReplicaId;
    const told = (await readConclusions(tx, [replicaId]))[0] ?? concludeFrom(death);
    const claims = attempts.map(({ claimId }) => claimId);
    const signs = await this.#signs.ofTasks?.(tx, replicaId, claims);
    await writePostMortems(
      tx,
      attempts.map(({ part, ...attempt }) => ({
        ...{ kind: "attempt", hostname: death.hostname ?? null, ...attempt, ...told },
        evidence: [...told.evidence, part, ...signLines(signs?.get(attempt.claimId))],
      })),
    );
  }

  /** `isAboutThis`: whether an error says nothing about other post-mortems. Where one that only reads waits, the whole table is locked. */
  async #try<T>(
    doing: string,
    work: (inTransaction: InTransaction) => Promise<T>,
    isAboutThis: (error: unknown) => boolean = isAboutTheValues,
  ): Promise<T | undefined> {
    const beganAtMs = performance.now();
    if (beganAtMs < this.#restsUntil) return undefined;
    try {
      return await work(async (act) => {
        if (performance.now() - beganAtMs > ENOUGH_MS) throw new Error("It took too long, and the rest was left.");
        return this.#database.transaction(async (tx) => {
          await limitPatience(tx, PATIENCE);
          return act(tx);
        });
      });
    } catch (error) {
      if (!isAboutThis(error)) this.#restsUntil = performance.now() + REST_MS;
      this.#events.emit("post-mortem.failed", { doing, error });
      return undefined;
    }
  }
}

export function evidenceOn(replica: DeadReplica): DeathEvidence {
  const death = readDeath(replica.death);
  const { vitals, beats, neighbours, neighboursGone, newVersion } = replica;
  const seen = [{ agoMs: death.silentForMs ?? 0, vitals }, ...beats];
  return {
    kind: "replica",
    because: death.because,
    exitCode: death.exitCode,
    signal: death.signal,
    group: death.group ?? groupAtLast(seen),
    exitCall: death.exitCall,
    wasDraining: death.wasDraining,
    silentForMs: death.silentForMs,
    livedForMs: Math.max(0, replica.livedForMs),
    holdsSession: replica.hadSession ? replica.holdsSession : undefined,
    memory: memoryOutlook(
      seen.flatMap(({ agoMs, vitals: at }) =>
        at?.["rss"] === undefined ? [] : [{ agoMs, rss: at["rss"], limit: at["memoryLimit"] ?? 0 }],
      ),
    ),
    loopP99Ms: vitals?.["loopP99Ms"],
    // What its heart wrote when it ended the process is later than its last beat.
    blockedForMs: death.blockedForMs ?? vitals?.["blockedForMs"],
    timedOut: death.timedOut?.map(({ taskId, name }) => ({ id: taskId, name })),
    running: replica.running,
    inThreads: replica.inThreads,
    stoppers: replica.stoppers,
    neighbours: { there: neighbours, gone: neighboursGone },
    cameBack:
      replica.backHow === null ? undefined : { how: replica.backHow, afterMs: Math.max(0, replica.backAfterMs ?? 0) },
    deploy: { leaving: replica.othersLeaving, left: replica.othersLeft, newVersion: newVersion ?? undefined },
  };
}

/** A record may be odd in ways that nobody thought of. Then the conclusion says so, and nobody asks again. */
function concludeOn(replica: DeadReplica, stack: string | undefined): Told {
  try {
    return probableCause({ ...evidenceOn(replica), stack });
  } catch (error) {
    const { message } = toErrorRecord(error);
    const sentence = "What is on record about its death could not be understood.";
    return { cause: "unknown", sentence, evidence: [`examining it failed: ${message}`] };
  }
}

/** Of an owner that is not on record as dead: it has left, or nobody knows it. */
function concludeFrom({ because, exitCode, signal, silentForMs, group }: Death): Told {
  return probableCause({ kind: "replica", because, exitCode, signal, silentForMs, group });
}

function signLines(signs: TaskSigns | undefined): string[] {
  if (!signs) return [];
  // The first line says how a process ended, which those of the replica have said.
  return evidenceLines({ kind: "replica", because: "unknown", ...signs }).slice(1);
}
