/** Replicas, and what they know how to run. */
import type { Store } from "../database/database.ts";
import type { ReplicaId } from "../task/ids.ts";

export interface ReplicaRow {
  readonly id: ReplicaId;
  readonly hostname: string;
  readonly pid: number;
  readonly version: string;
  readonly status: "online" | "draining" | "offline" | "dead";
  readonly startedAt: Date;
  readonly seenAt: Date;
  readonly tasks: string[];
  readonly queues: string[] | null;
  readonly claimed: number;
  readonly running: number;
}

export async function registerReplica(
  store: Store,
  replica: {
    id: ReplicaId;
    hostname: string;
    pid: number;
    version: string;
    tasks: readonly string[];
    queues: readonly string[] | undefined;
  },
): Promise<void> {
  await store.query(
    `insert into ${store.schema}.replica (id, hostname, pid, version, tasks, queues) values ($1, $2, $3, $4, $5, $6)
     on conflict (id) do nothing`,
    [replica.id, replica.hostname, replica.pid, replica.version, replica.tasks, replica.queues ?? null],
  );
}

export async function setReplicaStatus(store: Store, id: ReplicaId, status: ReplicaRow["status"]): Promise<void> {
  await store.query(`update ${store.schema}.replica set status = $2, seen_at = now() where id = $1`, [id, status]);
}

export async function listReplicas(store: Store): Promise<ReplicaRow[]> {
  return store.query<ReplicaRow>(
    `select r.id::text, r.hostname, r.pid, r.version, r.status, r.started_at as "startedAt", r.seen_at as "seenAt", r.tasks, r.queues,
            (select count(*)::int from ${store.schema}.running u where u.replica_id = r.id and u.state = 'claimed') as claimed,
            (select count(*)::int from ${store.schema}.running u where u.replica_id = r.id and u.state = 'running') as running
     from ${store.schema}.replica r order by r.started_at`,
  );
}

/** The definitions that workers run by, for callers in SQL and for those who recover a task without having its code. */
export async function saveDefinitions(
  store: Store,
  definitions: readonly { name: string; settings: unknown }[],
): Promise<void> {
  await store.query(
    `insert into ${store.schema}.definition (name, settings)
     select name, settings from json_to_recordset($1::json) as x (name text, settings json)
     order by name
     on conflict (name) do update set settings = excluded.settings, changed_at = now()
     where definition.settings::text <> excluded.settings::text`,
    [JSON.stringify(definitions)],
  );
}
