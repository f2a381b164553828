/** Machines, and what is known of their replicas. */
import type { Store } from "../database/database.ts";

export interface MachineRow {
  readonly id: string;
  readonly hostname: string;
  /** Online while one of its replicas is, and somebody listens who would know: looked up, never stored, so it cannot go out of date. */
  readonly isOnline: boolean;
  /** Nobody has listened since then, so that nobody knows whether its replicas are alive. Null while somebody listens, and where all of them are gone. */
  readonly unheardSince: Date | null;
  readonly replicas: number;
  readonly online: number;
  readonly running: number;
  readonly lastSeenAt: Date | null;
}

/** `patienceMs`: sweeps that are further apart have stopped. */
export async function listMachines(store: Store, patienceMs: number): Promise<MachineRow[]> {
  return store.query<MachineRow>(
    `select m.id, m.hostname, coalesce(bool_or(r.status in ('online', 'draining')) and x.since is null, false) as "isOnline",
            case when bool_or(r.status in ('online', 'draining')) then x.since end as "unheardSince", count(r.id)::int as replicas,
            (count(r.id) filter (where r.status in ('online', 'draining')))::int as online,
            coalesce(sum((select count(*) from ${store.schema}.running u where u.replica_id = r.id)), 0)::int as running,
            max(coalesce(h.beat_at, r.seen_at)) as "lastSeenAt"
     from ${store.schema}.machine m
     left join ${store.schema}.listening l on true
     cross join lateral (select case when s.at < clock_timestamp() - make_interval(secs => $1::float8 / 1000) then s.at end as since
                         from (select coalesce(${store.schema}.last_swept_at(l), m.joined_at) as at) s) x
     left join ${store.schema}.replica r on r.machine_id = m.id
     left join ${store.schema}.heart h on h.replica_id = r.id
     group by m.id, m.hostname, x.since order by m.hostname, m.id`,
    [patienceMs],
  );
}
