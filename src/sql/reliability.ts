/** How often the processes of a machine died or fell silent. */
import type { Store } from "../database/database.ts";

export interface MachineUnrest {
  readonly machineId: string;
  readonly hostname: string;
  /** Since it was first seen, or since as far back as is on record. */
  readonly observedForMs: number;
  /** Since when its oldest replica that is here has been up; null where none is. */
  readonly upForMs: number | null;
  readonly deaths: number;
  readonly silences: number;
  readonly deathsLately: number;
  readonly silencesLately: number;
}

/** In one look: every machine on record, over all that is on record and over the last `latelyMs`. */
export async function readUnrest(
  store: Store,
  spans: { latelyMs: number; recordMs: number },
): Promise<MachineUnrest[]> {
  const s = store.schema;
  const lately = "x.happened_at > now() - make_interval(secs => $1::float8 / 1000)";
  return store.query<MachineUnrest>(
    `select m.id as "machineId", m.hostname,
            least((extract(epoch from now() - m.first_seen_at) * 1000)::float8, $2::float8) as "observedForMs",
            (select (extract(epoch from now() - min(r.started_at)) * 1000)::float8 from ${s}.replica r
             where r.machine_id = m.id and r.status in ('online', 'draining')) as "upForMs",
            (count(*) filter (where x.kind = 'dead'))::int as deaths,
            (count(*) filter (where x.kind = 'stale'))::int as silences,
            (count(*) filter (where x.kind = 'dead' and ${lately}))::int as "deathsLately",
            (count(*) filter (where x.kind = 'stale' and ${lately}))::int as "silencesLately"
     from ${s}.machine m
     left join ${s}.unrest x on x.machine_id = m.id and x.happened_at > now() - make_interval(secs => $2::float8 / 1000)
     group by m.id, m.hostname, m.first_seen_at order by m.hostname, m.id`,
    [spans.latelyMs, spans.recordMs],
  );
}

export interface SilentReplica {
  readonly replicaId: string;
  readonly machineId: string | null;
  readonly hostname: string;
}

/** Silences that were worth a warning: each once, whoever hears of it. */
export async function noteSilences(store: Store, silent: readonly SilentReplica[]): Promise<void> {
  await store.query(`select ${store.schema}.note_silences($1::uuid[], $2::text[], $3::text[])`, [
    silent.map(({ replicaId }) => replicaId),
    silent.map(({ machineId, hostname }) => machineId ?? hostname),
    silent.map(({ hostname }) => hostname),
  ]);
}
