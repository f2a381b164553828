/** Following topics: leases, what has happened since a snapshot, and how tasks stand, all as of one snapshot. */
import type { Store } from "../database/database.ts";
import type { ErrorRecord } from "../task/error-record.ts";
import type { ClaimId, ReplicaId, TaskId } from "../task/ids.ts";
import type { TaskState } from "../task/states.ts";

/** `task ID`, `replica ID`, or `replica *` for all of them. */
export type Topic = string;

/** Something that happened to a topic, as it was written. */
export interface Happening {
  readonly id: string;
  /** The transaction that wrote it. */
  readonly xact: string;
  readonly topic: Topic;
  readonly at: string;
  readonly kind: string;
  readonly claimId: ClaimId | null;
  readonly details: Readonly<Record<string, unknown>> | null;
  /** Of the attempt that was over then, if the task goes on: of one that has ended, how it stands says it. */
  readonly error: ErrorRecord | null;
}

/** How a task stands at a moment. */
export interface Standing {
  readonly taskId: TaskId;
  readonly state: TaskState;
  /** Of the claim that it has, or had when it ended; null while it waits. */
  readonly attempt: number | null;
  readonly claimId: ClaimId | null;
  readonly replicaId: ReplicaId | null;
  readonly isCancelling: boolean;
  readonly phase: string | null;
  readonly details: unknown;
  readonly share: number | null;
  readonly done: number | null;
  readonly total: number | null;
  readonly note: string | null;
  readonly endedAt: string | null;
  readonly error: ErrorRecord | null;
}

/** What one look has seen, all of it in one snapshot. */
export interface Look {
  readonly snapshot: string;
  readonly at: Date;
  /** Null: the server has begun a new epoch, and nobody has written anything since. */
  readonly epoch: string | null;
  readonly happenings: readonly Happening[];
  readonly standings: readonly Standing[];
}

/** A position, as the database compares it. */
export interface SeenUntil {
  /** What this snapshot could see has been told. */
  readonly before: string;
  /** Of what this one could see besides, everything up to `id`. */
  readonly until: string;
  readonly id: string;
}

/** Null: the lease had run out. Otherwise the present epoch. */
export async function followTopics(
  store: Store,
  follower: string,
  topics: readonly Topic[],
  leaseMs: number,
): Promise<string | null> {
  const [row] = await store.query<{ epoch: string | null }>(
    `select ${store.schema}.follow_topics($1, $2::text[], $3) as epoch`,
    [follower, topics, leaseMs],
  );
  return row?.epoch ?? null;
}

/** False: the lease had run out. */
export async function renewFollowing(store: Store, follower: string, leaseMs: number): Promise<boolean> {
  const [row] = await store.query<{ holds: boolean }>(`select ${store.schema}.renew_following($1, $2) as holds`, [
    follower,
    leaseMs,
  ]);
  return row?.holds ?? false;
}

export async function leaveTopics(
  store: Store,
  follower: string,
  topics: readonly Topic[],
  areOver: boolean,
): Promise<void> {
  await store.query(`select ${store.schema}.leave_topics($1, $2::text[], $3)`, [follower, topics, areOver]);
}

/**
 * What happened to a process's topics after a snapshot. Null: that cannot be known any more. `tasks`: those whose standing is asked for besides
 * those that have ended meanwhile.
 */
export async function lookSince(
  store: Store,
  since: { follower: string; epoch: string; snapshot: string },
  tasks: readonly TaskId[],
  limit: number,
): Promise<Look | null> {
  const s = store.schema;
  const [row] = await store.query<Look & { isKept: boolean }>(
    `with h as materialized (select * from ${s}.happenings_since($1, $3::pg_snapshot, $5))
     select ${SNAPSHOT}, ${s}.known_epoch() as epoch,
            ${s}.known_epoch() = $2 and (select count(*) < $5 from h) and ${s}.is_following($1, $3::pg_snapshot) as "isKept",
            ${happenings(s)}, ${standings(s, `$4::uuid[] || array(select substr(topic, 6)::uuid from h where kind in ('ended', 'claimed', 'running', 'progress') and topic like 'task %')`)}`,
    [since.follower, since.epoch, since.snapshot, tasks, limit],
  );
  return row?.isKept ? row : null;
}

/** Where topics begin: how their tasks stand, and what happened after a position, where it is kept. */
export interface Beginning extends Look {
  /** The places of those whose position is kept, from 0. */
  readonly kept: readonly number[];
  readonly happenings: readonly (Happening & { readonly place: number })[];
}

/** `from`: for each topic, where it goes on; null where it begins anew. */
export async function beginTopics(
  store: Store,
  topics: readonly Topic[],
  from: readonly (SeenUntil | null)[],
  tasks: readonly TaskId[],
  limit: number,
): Promise<Beginning> {
  const s = store.schema;
  const back = topics.flatMap((topic, place) => {
    const position = from[place];
    return position ? [{ topic, place, ...position }] : [];
  });
  const [row] = await store.query<Beginning & { isWhole: boolean }>(
    `with r as materialized (
       select r.* from json_to_recordset($1::json) as r (topic text, place integer, before pg_snapshot, until pg_snapshot, id bigint)
       where ${s}.is_position_kept(r.topic, r.before)
     ), h as materialized (
       select h.id, h.xact, h.at, h.kind, h.claim_id, h.details, a.topics[h.place] as topic, a.places[h.place] as place
       from (select array_agg(topic) as topics, array_agg(place) as places, array_agg(before) as before, array_agg(until) as until, array_agg(id) as ids
             from r) a
       cross join lateral ${s}.happenings_after(a.topics, a.before, a.until, a.ids, $3) h
     )
     select ${SNAPSHOT}, ${s}.known_epoch() as epoch, (select count(*) < $3 from h) as "isWhole",
            coalesce((select json_agg(place) from r), '[]') as kept,
            ${happenings(s, ", 'place', place")}, ${standings(s, "$2::uuid[]")}`,
    [JSON.stringify(back), tasks, limit],
  );
  if (!row) throw new Error("a select without a table gave no row");
  return row.isWhole ? row : { ...row, kept: [], happenings: [] };
}

const SNAPSHOT = `pg_current_snapshot()::text as snapshot, clock_timestamp() as at`;

/** Ids as text, because TypeScript handles them as text. Details to the letter: nothing here takes them apart. */
function happenings(schema: string, more = ""): string {
  return `coalesce((select json_agg(json_build_object(
    'id', id::text, 'xact', xact::text, 'topic', topic, 'at', at, 'kind', kind, 'claimId', claim_id::text, 'details', details,
    'error', case when kind in ('pending', 'ended') then ${schema}.error_of_attempt(claim_id) end${more})
    order by id) from h), '[]') as happenings`;
}

function standings(schema: string, tasks: string): string {
  return `coalesce((select json_agg(json_build_object(
    'taskId', task_id, 'state', state, 'attempt', attempt, 'claimId', claim_id::text, 'replicaId', replica_id, 'isCancelling', is_cancelling,
    'phase', phase, 'details', details, 'share', share, 'done', done, 'total', total, 'note', note, 'endedAt', ended_at, 'error', error))
    from ${schema}.standings(${tasks})), '[]') as standings`;
}
