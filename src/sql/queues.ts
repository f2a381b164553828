/** Queues: their settings and how much is in them. */
import type { Store } from "../database/database.ts";

/** So many starts in that time. */
export interface RateLimit {
  readonly limit: number;
  readonly perMs: number;
}

export interface QueueRow {
  readonly name: string;
  readonly isPaused: boolean;
  /** Why a worker has paused it: nothing can be claimed from it. */
  readonly trouble: string | null;
  readonly concurrency: number | null;
  readonly rateLimit: RateLimit | null;
  readonly ready: number;
  readonly delayed: number;
  readonly parked: number;
  readonly claimed: number;
  readonly running: number;
  /** How long the task that is due the longest has been waiting. */
  readonly oldestDueMs: number | null;
}

export interface QueueSettings {
  readonly isPaused?: boolean | undefined;
  /** Null takes the limit away; undefined leaves it. */
  readonly concurrency?: number | null | undefined;
  readonly rateLimit?: RateLimit | null | undefined;
}

/** Those that have settings, or were in use lately. */
export async function listQueues(store: Store): Promise<QueueRow[]> {
  return store.query<QueueRow>(
    `select q.name, coalesce(s.paused, false) as "isPaused", s.trouble, s.concurrency,
            case when s.rate_limit is not null then json_build_object('limit', s.rate_limit, 'perMs', s.rate_per_ms) end as "rateLimit",
            coalesce(r.due, 0)::int as ready, coalesce(r.later, 0)::int as delayed, coalesce(p.parked, 0)::int as parked,
            coalesce(u.claimed, 0)::int as claimed, coalesce(u.running, 0)::int as running, r.oldest as "oldestDueMs"
     from (select name from ${store.schema}.queue union select queue from ${store.schema}.lane
           union select queue from ${store.schema}.running union select queue from ${store.schema}.parked) q
     left join ${store.schema}.queue s on s.name = q.name
     left join (select queue, count(*) filter (where run_at <= now()) as due, count(*) filter (where run_at > now()) as later,
                       (extract(epoch from now() - min(run_at) filter (where run_at <= now())) * 1000)::float8 as oldest
                from ${store.schema}.ready group by queue) r on r.queue = q.name
     left join (select queue, count(*) as parked from ${store.schema}.parked group by queue) p on p.queue = q.name
     left join (select queue, count(*) filter (where state = 'claimed') as claimed, count(*) filter (where state = 'running') as running
                from ${store.schema}.running group by queue) u on u.queue = q.name
     order by q.name`,
  );
}

/** A limit that is set now counts what is running already. */
export async function changeQueue(store: Store, name: string, settings: QueueSettings): Promise<void> {
  const { isPaused, concurrency, rateLimit } = settings;
  await store.query(
    `with changed as (
       insert into ${store.schema}.queue (name, paused, concurrency, rate_limit, rate_per_ms)
       values ($1, coalesce($2, false), $4, $6, $7)
       on conflict (name) do update set
         paused = coalesce($2, queue.paused),
         concurrency = case when $3 then $4 else queue.concurrency end,
         rate_limit = case when $5 then $6 else queue.rate_limit end,
         rate_per_ms = case when $5 then $7 else queue.rate_per_ms end,
         changed_at = now(), trouble = case when $2 then queue.trouble end
       returning name
     ), affected as materialized (
       select replica_id, claim_id from ${store.schema}.running where $3 and queue = $1 and limited is distinct from ($4 is not null)
       order by replica_id, claim_id for update
     )
     update ${store.schema}.running u set limited = $4 is not null from affected where u.replica_id = affected.replica_id and u.claim_id = affected.claim_id`,
    [
      name,
      isPaused ?? null,
      concurrency !== undefined,
      concurrency ?? null,
      rateLimit !== undefined,
      rateLimit?.limit ?? null,
      rateLimit?.perMs ?? null,
    ],
  );
  // Who pauses a queue has not put right what is wrong with it.
  await store.query(
    `select ${store.schema}.ring(array[$1::text]),
       case when not $2 then ${store.schema}.resolve_alerts_of('queue-not-usable', array[$1::text]) end`,
    [name, isPaused === true],
  );
}
