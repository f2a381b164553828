/** Turns of what runs once in the cluster: taken, kept, given back, and how the last run of each service went. */
import type { Store } from "../database/database.ts";
import type { ReplicaId } from "../task/ids.ts";

export interface Taker {
  readonly id: ReplicaId;
  /** For people. */
  readonly host: string;
  /** False: it is no replica, and stands behind all of them. */
  readonly isReplica: boolean;
  /** From this place on, it does not matter how far back one stands. */
  readonly places: number;
  /** How long a turn is held without another word from its taker. */
  readonly holdMs: number;
}

export interface WantedTurn {
  readonly service: string;
  readonly everyMs: number;
  /** After how long it is run in the place of another who had it last. Undefined: not now; only who has it is asked. */
  readonly fromMs: number | undefined;
  /** False: another may take it as soon as it is late, though its taker is still at it. */
  readonly isHeld: boolean;
}

/** What is known of a service after asking for it. */
export interface TurnAnswer {
  readonly service: string;
  /** Names the turn that is under way or was last. */
  readonly token: string;
  readonly isOurs: boolean;
  /** Who had it last, and how long ago: if it is ours, before us. Null: nobody. */
  readonly takenBy: ReplicaId | null;
  readonly takenAgoMs: number | null;
  /** How far back we stand in line. Null where the most frequent service is ours. */
  readonly place: number | null;
  /** Our last run has ended, and that is not on record yet: somebody has locked the row. */
  readonly awaitsEnd: boolean;
}

/** A run that went well. */
export interface EndedRun {
  readonly token: string;
  readonly tookMs: number;
}

/**
 * One statement, whatever the number of services: `wanted`, the most frequent first, the tokens of those that are still being run, and what has ended
 * since the last time.
 */
export async function takeTurns(
  store: Store,
  taker: Taker,
  wanted: readonly WantedTurn[],
  so: { readonly running: readonly string[]; readonly ended: readonly EndedRun[] },
): Promise<TurnAnswer[]> {
  return store.query<TurnAnswer>(
    `select service, token::text, is_ours as "isOurs", taken_by::text as "takenBy", taken_ago_ms as "takenAgoMs", place,
            awaits_end as "awaitsEnd"
     from ${store.schema}.take_turns($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
    [
      ...[taker.id, taker.host, wanted.map(({ service }) => service)],
      wanted.map(({ everyMs }) => Math.round(everyMs)),
      wanted.map(({ fromMs }) => (fromMs === undefined ? null : Math.round(fromMs))),
      ...[wanted.map(({ isHeld }) => isHeld), taker.holdMs, so.running],
      ...[so.ended.map(({ token }) => token), so.ended.map(({ tookMs }) => tookMs), taker.isReplica, taker.places],
    ],
    "often",
  );
}

/** `error`: what the run failed with. Nothing is written if somebody has had the turn since. */
export async function endTurn(
  store: Store,
  run: { token: string; tookMs: number; error: string | undefined },
): Promise<void> {
  await store.query(`select ${store.schema}.end_turn($1, $2, $3)`, [run.token, run.tookMs, run.error ?? null], "often");
}

/** A service that runs once in the cluster, as it is on record. */
export interface TurnRow {
  readonly service: string;
  /** The interval at which it is run by whoever had it last. */
  readonly everyMs: number;
  /** Who ran it last, or is running it: a replica, or a process without a worker. */
  readonly takenBy: ReplicaId;
  readonly takenOn: string;
  readonly takenAt: Date;
  readonly takenAgoMs: number;
  readonly isRunning: boolean;
  /** When a run ended last, how long that took, what it failed with, and how many in a row have failed. */
  readonly endedAt: Date | null;
  readonly tookMs: number | null;
  readonly error: string | null;
  readonly failures: number;
}

export async function listTurns(store: Store): Promise<TurnRow[]> {
  return store.query<TurnRow>(
    `select service, every_ms::float8 as "everyMs", taken_by::text as "takenBy", taken_on as "takenOn", taken_at as "takenAt",
            (extract(epoch from clock_timestamp() - taken_at) * 1000)::float8 as "takenAgoMs", held_until > clock_timestamp() as "isRunning",
            ended_at as "endedAt", took_ms as "tookMs", error, failures
     from ${store.schema}.turn where taken_at is not null order by every_ms, service`,
  );
}
