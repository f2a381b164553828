/** Signs of life, and the conditional writes that follow a verdict. */

import type { Store } from "../database/database.ts";
import type { VerdictRecord } from "../task/death.ts";
import type { ReplicaId } from "../task/ids.ts";
import { type RunnerRecord, runnersJson } from "./runners.ts";

export interface HeartPromise {
  readonly intervalMs: number;
  readonly promiseMs: number;
  readonly sessionPromiseMs: number;
}

/** False: this replica was declared dead, or is not on record. */
export async function beginHeart(store: Store, replicaId: ReplicaId, promise: HeartPromise): Promise<boolean> {
  const [row] = await store.query<{ begun: boolean }>(`select ${store.schema}.begin_heart($1, $2, $3, $4) as begun`, [
    replicaId,
    promise.intervalMs,
    promise.promiseMs,
    promise.sessionPromiseMs,
  ]);
  return row?.begun === true;
}

/** False: refused. What is told of runners comes with it, in the same statement. */
export async function beat(
  store: Store,
  replicaId: ReplicaId,
  sign: { vitals: unknown; hasSession: boolean; isRemembered: boolean; runners?: readonly RunnerRecord[] },
): Promise<boolean> {
  const values = [replicaId, JSON.stringify(sign.vitals), sign.hasSession, sign.isRemembered];
  const hasRunners = sign.runners !== undefined && sign.runners.length > 0;
  const [row] = await store.query<{ heard: boolean }>(
    hasRunners
      ? `select b.heard, case when b.heard then ${store.schema}.note_runners($1, $5::json) end
         from (select ${store.schema}.beat($1, $2::json, $3, $4) as heard offset 0) b`
      : `select ${store.schema}.beat($1, $2::json, $3, $4) as heard`,
    hasRunners ? [...values, runnersJson(sign.runners ?? [])] : values,
  );
  return row?.heard === true;
}

/**
 * On a connection of one's own: held for as long as that lives. Shared, so that a reconnect does not wait for its predecessor.
 * Returns the epoch that the session lives in.
 */
export async function takeSession(store: Store, replicaId: ReplicaId): Promise<string> {
  const [row] = await store.query<{ epoch: string }>(
    `select pg_advisory_lock_shared(${store.schema}.session_key($1)), ${store.schema}.current_epoch() as epoch`,
    [replicaId],
  );
  return row?.epoch ?? "";
}

export async function letGoOfSession(store: Store, replicaId: ReplicaId): Promise<void> {
  await store.query(`select pg_advisory_unlock_shared(${store.schema}.session_key($1))`, [replicaId]);
}

/**
 * While a sweep runs, its process reports every third of a gap that it still listens. Then the sweep's own duration does not count as a gap (see
 * keep_listening).
 */
export async function keepListening(store: Store, { gapMs, isReplica }: { gapMs: number; isReplica: boolean }) {
  await store.query(`select ${store.schema}.keep_listening($1, $2)`, [Math.round(gapMs), isReplica]);
}

/** Of one who should be alive and is not surely well. */
export interface DoubtfulHeart {
  readonly replicaId: ReplicaId;
  readonly machineId: string | null;
  readonly hostname: string;
  readonly status: "online" | "draining";
  readonly silentForMs: number;
  /** Null: its session is there, or does not count. */
  readonly sessionFreeForMs: number | null;
  readonly promiseMs: number;
  readonly sessionPromiseMs: number;
  readonly intervalMs: number;
  readonly vitals: unknown;
  /** How many machines have a replica that should be alive. */
  readonly machines: number;
  /** Its own has one that is surely well. */
  readonly isMachineWell: boolean;
}

/** What is found where a sweep begins. */
export interface SweepBegun {
  /** Who swept before, and how long ago. Null: nobody has. */
  readonly sweptBy: ReplicaId | null;
  readonly sweptAgoMs: number | null;
  /** The deaths of hearts are held back, for fear of a mass death that is none. */
  readonly isHeld: boolean;
  /** Hearts whose rows could not be written: some of them, if there are many… */
  readonly refused: readonly RefusedHeart[];
  /** …and how many there are. */
  readonly refusedCount: number;
}

export interface RefusedHeart {
  readonly replicaId: ReplicaId;
  readonly code: string;
  readonly message: string;
}

export interface Sweeper {
  readonly id: ReplicaId;
  /** False: it listens without being a replica, and has no heart. */
  readonly isReplica: boolean;
  readonly gapMs: number;
}

/** Notes that this reaper sweeps now. Holds nothing when it is over. */
export async function beginSweep(store: Store, { id, isReplica, gapMs }: Sweeper): Promise<SweepBegun> {
  const [begun] = await store.query<SweepBegun>(
    `select swept_by::text as "sweptBy", swept_ago_ms as "sweptAgoMs", is_held as "isHeld",
            coalesce(refused, '[]') as refused, refused_count as "refusedCount"
     from ${store.schema}.begin_sweep($1, $2, $3)`,
    [id, Math.round(gapMs), isReplica],
    "often",
  );
  return begun ?? { sweptBy: null, sweptAgoMs: null, isHeld: false, refused: [], refusedCount: 0 };
}

/** Those who should be alive and have been silent for that long or, where sessions count, are without theirs, as heard now. */
export async function readDoubtfulHearts(
  store: Store,
  { silentFromMs, doSessionsCount }: { silentFromMs: number; doSessionsCount: boolean },
): Promise<DoubtfulHeart[]> {
  return store.query<DoubtfulHeart>(
    `select replica_id::text as "replicaId", machine_id as "machineId", hostname, status, silent_for_ms as "silentForMs",
            session_free_for_ms as "sessionFreeForMs", promise_ms as "promiseMs", session_promise_ms as "sessionPromiseMs", interval_ms as "intervalMs", vitals,
            machines, is_machine_well as "isMachineWell"
     from ${store.schema}.doubtful_hearts($1, $2)`,
    [silentFromMs, doSessionsCount],
  );
}

/** False: the evidence no longer holds. */
export async function declareDead(
  store: Store,
  replicaId: ReplicaId,
  { death, minMs }: { death: VerdictRecord; minMs: number },
): Promise<boolean> {
  const [row] = await store.query<{ dead: boolean }>(
    `select ${store.schema}.declare_dead($1, $2, $3, $4::json) as dead`,
    [replicaId, death.because, minMs, JSON.stringify(death)],
  );
  return row?.dead === true;
}

type ReachedVerdict = "dead" | "not-alive" | "session-held";
/** `locked`: none, because somebody has locked its row. */
export type ExitVerdict = ReachedVerdict | "locked";

/** Dead, with the record of its death; or it had left or was declared dead before; or its session has not ended yet. */
export async function declareExited(
  store: Store,
  replicaId: ReplicaId,
  exit: {
    exitCode: number | null;
    signal: string | null;
    group: object | undefined;
    sharedWith: readonly ReplicaId[] | undefined;
    wasAsked: boolean;
  },
): Promise<{ verdict: ReachedVerdict; death: unknown }> {
  const [row] = await store.query<{ verdict: ReachedVerdict; death: unknown }>(
    `select verdict, death from ${store.schema}.declare_exited($1, $2, $3, $4, $5, $6)`,
    [
      ...[replicaId, exit.exitCode, exit.signal],
      ...[exit.group === undefined ? null : JSON.stringify(exit.group), exit.wasAsked, exit.sharedWith ?? null],
    ],
  );
  return row ?? { verdict: "not-alive", death: null };
}
