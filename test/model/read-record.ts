/** Reads the tables for the checker. */
import type { Database } from "../../src/database/database.ts";
import type { Place, Record } from "./record.ts";

const PLACES = (schema: string) => `
  select (extract(epoch from clock_timestamp()) * 1000)::float8 as "clockMs", coalesce(json_agg(p), '[]') as places from (
    select task_id as task, 'ready' as "table", attempt, queue, null as claim, null as replica, null as state from ${schema}.ready
    union all select task_id, 'parked', attempt, queue, null, null, null from ${schema}.parked
    union all select task_id, 'running', attempt, queue, claim_id::text, replica_id::text, state from ${schema}.running
    union all select task_id, 'ended', attempt, null, claim_id::text, null, null from ${schema}.ended) p`;

/** The database's clock, in milliseconds. */
export async function readClockMs(database: Database): Promise<number> {
  const [row] = await database.query<{ ms: number }>(
    "select (extract(epoch from clock_timestamp()) * 1000)::float8 as ms",
  );
  return row?.ms ?? Number.NaN;
}

export async function readPlaces(database: Database): Promise<{ clockMs: number; places: readonly Place[] }> {
  const [row] = await database.query<{ clockMs: number; places: Place[] }>(PLACES(database.schema));
  return row ?? { clockMs: Number.NaN, places: [] };
}

export async function readHold(
  database: Database,
): Promise<{ sweptAt: number; sweptBy: string; heldSince: number | null; keptUntil: number | null }> {
  const [row] = await database.query<Awaited<ReturnType<typeof readHold>>>(
    `select (extract(epoch from swept_at) * 1000)::float8 as "sweptAt", swept_by::text as "sweptBy",
            (extract(epoch from h.since) * 1000)::float8 as "heldSince", (extract(epoch from h.renewed_at + h.kept_for) * 1000)::float8 as "keptUntil"
     from ${database.schema}.listening left join ${database.schema}.hold h on h.source = 'hearts' and ${database.schema}.hold_lasts(h)`,
  );
  return row ?? { sweptAt: Number.NEGATIVE_INFINITY, sweptBy: "", heldSince: null, keptUntil: null };
}

/** movedMs: how much time has passed by moving stamps. */
export async function readRecord(database: Database, movedMs: number): Promise<Record> {
  const { schema } = database;
  const rows = <Row>(text: string, values?: unknown[]) => database.query<Row>(text, values);
  const [tasks, places, attempts, late, replicas, alerts, limits] = [
    await rows<{ id: string }>(`select id::text from ${schema}.task`),
    (await readPlaces(database)).places,
    await rows<Record["attempts"][number]>(
      `select claim_id::text as claim, task_id::text as task, attempt from ${schema}.attempt
       union all select claim_id::text, task_id::text, attempt from ${schema}.ended where claim_id is not null`,
    ),
    await rows<Record["late"][number]>(`select claim_id::text as claim, outcome from ${schema}.late`),
    await rows<Record["replicas"][number]>(
      `select r.id::text, r.status, h.is_dead as "isHeartDead" from ${schema}.replica r left join ${schema}.heart h on h.replica_id = r.id`,
    ),
    await rows<Record["alerts"][number]>(
      `select kind, (extract(epoch from raised_at) * 1000)::float8 + $1 as "raisedAt" from ${schema}.alert`,
      [movedMs],
    ),
    await rows<{ name: string; concurrency: number }>(
      `select name, concurrency from ${schema}.queue where concurrency is not null`,
    ),
  ];
  return {
    ...{ tasks: tasks.map(({ id }) => id), places, attempts, late, replicas, alerts },
    queueLimits: Object.fromEntries(limits.map(({ name, concurrency }) => [name, concurrency])),
  };
}
