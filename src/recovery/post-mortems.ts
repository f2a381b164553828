/**
 * Asks what the dead died of, and writes it down. Never in the way of recovery: it waits for a bounded time only, and what could not
 * be written is reported and left.
 */
import type { Database, Store } from "../database/database.ts";
import type { Events } from "../events.ts";
import {
  type DeadReplica,
  limitPatience,
  type NewPostMortem,
  readConclusions,
  readUnexamined,
  writePostMortems,
} from "../sql/post-mortems.ts";
import { toErrorRecord } from "../task/error-record.ts";
import type { ClaimId, ReplicaId } from "../task/ids.ts";
import { type DeathEvidence, evidenceLines } from "./death-evidence.ts";
import { readDeath } from "./death-record.ts";
import { LAST_SIGNS } from "./last-signs.ts";
import { memoryOutlook } from "./memory-outlook.ts";
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
export interface CrashedAttempt {
  readonly replicaId: ReplicaId;
  readonly taskId: NonNullable<NewPostMortem["taskId"]>;
  readonly claimId: ClaimId;
  readonly name: string;
  /** Its part in it, in words. */
  readonly part: string;
}

const PATIENCE_MS = 2_000;
/** After a failure, so that a table that cannot be written does not delay every sweep. */
const REST_MS = 30_000;
const BATCH = 100;

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
  async examineDead(replicas: readonly ReplicaId[]): Promise<ReadonlyMap<ReplicaId, Told>> {
    const found = await this.#try("examining dead replicas", async (tx) => ({
      fresh: await this.#examineNew(tx),
      told: replicas.length === 0 ? [] : await readConclusions(tx, replicas),
    }));
    for (const { replicaId, cause, sentence } of found?.fresh ?? [])
      if (replicaId) this.#events.emit("replica.examined", { replicaId, cause, sentence });
    return new Map((found?.told ?? []).map((told) => [told.replicaId, told]));
  }

  async writeAttempts(death: Death, attempts: readonly CrashedAttempt[]): Promise<void> {
    if (attempts.length === 0) return;
    await this.#try("writing the post-mortems of attempts", async (tx) => {
      const replicaId = death.replicaId as ReplicaId;
      const told = (await readConclusions(tx, [replicaId]))[0] ?? concludeFrom(death);
      const signs = await this.#signs.ofTasks?.(
        tx,
        replicaId,
        attempts.map(({ claimId }) => claimId),
      );
      await writePostMortems(
        tx,
        attempts.map(({ part, ...attempt }) => ({
          ...{ kind: "attempt", hostname: death.hostname ?? null, ...attempt, ...told },
          evidence: [...told.evidence, part, ...signLines(signs?.get(attempt.claimId))],
        })),
      );
    });
  }

  /** Of a runner, whose replica has seen how it ended. What is concluded is known also where it cannot be written. */
  async writeRunner(subject: DeadRunner, evidence: DeathEvidence): Promise<Told> {
    const told = probableCause(evidence);
    await this.#try("writing the post-mortem of a runner", async (tx) => {
      const claims = subject.claimId ? [subject.claimId] : [];
      const signs = await this.#signs.ofTasks?.(tx, subject.replicaId as ReplicaId, claims);
      const complete = evidenceLines({ ...evidence, ...signs?.get(claims[0] as ClaimId) });
      await writePostMortems(tx, [{ kind: "runner", ...subject, ...told, evidence: complete }]);
    });
    return told;
  }

  async #examineNew(tx: Store): Promise<readonly NewPostMortem[]> {
    const found: NewPostMortem[] = [];
    for (const replica of await readUnexamined(tx, BATCH)) found.push(await this.#examine(tx, replica));
    if (found.length > 0) await writePostMortems(tx, found);
    return found;
  }

  async #examine(tx: Store, replica: DeadReplica): Promise<NewPostMortem> {
    const stack = await this.#signs.stackOf?.(tx, replica.replicaId);
    const { replicaId, hostname, diedAt } = replica;
    return { kind: "replica", replicaId, hostname, happenedAt: diedAt, ...concludeOn(replica, stack) };
  }

  async #try<T>(doing: string, work: (tx: Store) => Promise<T>): Promise<T | undefined> {
    if (performance.now() < this.#restsUntil) return undefined;
    try {
      return await this.#database.transaction(async (tx) => {
        await limitPatience(tx, PATIENCE_MS);
        return work(tx);
      });
    } catch (error) {
      this.#restsUntil = performance.now() + REST_MS;
      this.#events.emit("post-mortem.failed", { doing, error });
      return undefined;
    }
  }
}

export function evidenceOn(replica: DeadReplica): DeathEvidence {
  const death = readDeath(replica.death);
  const { vitals, beats, neighbours, neighboursGone, othersLeaving, newVersion } = replica;
  const lastBeat = { agoMs: death.silentForMs ?? 0, vitals };
  return {
    kind: "replica",
    because: death.because ?? "silent",
    exitCode: death.exitCode,
    signal: death.signal,
    wasDraining: death.wasDraining,
    silentForMs: death.silentForMs,
    livedForMs: Math.max(0, replica.livedForMs),
    holdsSession: replica.hadSession ? replica.holdsSession : undefined,
    memory: memoryOutlook(
      [lastBeat, ...beats].flatMap(({ agoMs, vitals: seen }) =>
        seen?.["rss"] === undefined ? [] : [{ agoMs, rss: seen["rss"], limit: seen["memoryLimit"] ?? 0 }],
      ),
    ),
    loopP99Ms: vitals?.["loopP99Ms"],
    // What its heart wrote when it ended the process is later than its last beat.
    blockedForMs: death.blockedForMs ?? vitals?.["blockedForMs"],
    running: replica.running,
    neighbours: { there: neighbours, gone: neighboursGone },
    cameBack:
      replica.backHow === null ? undefined : { how: replica.backHow, afterMs: Math.max(0, replica.backAfterMs ?? 0) },
    deploy: { leaving: othersLeaving, newVersion: newVersion ?? undefined },
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
function concludeFrom({ because, exitCode, signal, silentForMs }: Death): Told {
  return probableCause({ kind: "replica", because, exitCode, signal, silentForMs });
}

function signLines(signs: TaskSigns | undefined): string[] {
  if (!signs) return [];
  // The first line says how a process ended, which those of the replica have said.
  return evidenceLines({ kind: "replica", because: "silent", ...signs }).slice(1);
}
