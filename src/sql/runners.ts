/** The threads and processes that replicas run tasks in. */
import type { Store } from "../database/database.ts";
import type { ClaimOnTask, ReplicaId } from "../task/ids.ts";

/** What a replica tells of one of its runners. */
export interface RunnerRecord {
  readonly id: string;
  readonly kind: "thread" | "process";
  readonly pid: number;
  readonly ageMs: number;
  readonly silentForMs: number;
  readonly status: RunnerRow["status"];
  readonly vitals: unknown;
  /** What it is running. */
  readonly claims: readonly ClaimOnTask[];
  readonly exit: unknown;
}

export interface RunnerRow {
  readonly id: string;
  readonly replicaId: ReplicaId;
  readonly kind: "thread" | "process";
  readonly pid: number;
  readonly startedAt: Date;
  readonly beatAt: Date;
  readonly status: "starting" | "idle" | "busy" | "ending" | "ended";
  readonly vitals: Record<string, number> | null;
  readonly endedAt: Date | null;
  readonly exit: { code: number | null; signal: string | null; because: string; message?: string } | null;
}

export async function noteRunners(store: Store, replicaId: ReplicaId, runners: readonly RunnerRecord[]): Promise<void> {
  await store.query(`select ${store.schema}.note_runners($1, $2::json)`, [replicaId, runnersJson(runners)]);
}

/** As `note_runners` takes them. */
export function runnersJson(runners: readonly RunnerRecord[]): string {
  return JSON.stringify(
    runners.map(({ ageMs, silentForMs, claims, vitals, exit, ...rest }) => ({
      ...rest,
      // JSON within text: it may hold anything that a runner said last, and the beat must be written all the same.
      vitals: JSON.stringify(vitals ?? null),
      exit: JSON.stringify(exit ?? null),
      claims: claims.map(({ claimId, taskId }) => ({ claim: claimId, task: taskId })),
      age_ms: ageMs,
      silent_ms: silentForMs,
    })),
  );
}

export async function listRunners(store: Store): Promise<RunnerRow[]> {
  return store.query<RunnerRow>(
    `select id::text, replica_id::text as "replicaId", kind, pid, started_at as "startedAt", beat_at as "beatAt", status, vitals,
            ended_at as "endedAt", exit
     from ${store.schema}.runner order by started_at`,
  );
}

/** Whether this replica may have had processes of its own, which outlive it by a moment. */
export async function mayHaveProcesses(store: Store, replicaId: ReplicaId): Promise<boolean> {
  const [row] = await store.query<{ may: boolean }>(
    `select exists (
       select from ${store.schema}.replica r join ${store.schema}.definition d on d.name = any (r.tasks)
       where r.id = $1 and d.run_in = 'process') as may`,
    [replicaId],
  );
  return row?.may === true;
}
