/** Post-mortems: what is known about a death, and what was concluded from it. */
import type { Store } from "../database/database.ts";
import { storableText } from "../task/error-record.ts";
import type { ClaimId, ReplicaId, TaskId } from "../task/ids.ts";

export type PostMortemKind = "replica" | "runner" | "attempt";

export interface PostMortemRow {
  readonly id: string;
  readonly kind: PostMortemKind;
  readonly replicaId: ReplicaId | null;
  readonly runnerId: string | null;
  readonly taskId: TaskId | null;
  readonly claimId: ClaimId | null;
  /** The task's, where there is one. */
  readonly name: string | null;
  readonly hostname: string | null;
  readonly happenedAt: Date;
  /** A word for programs; people read the sentence. */
  readonly cause: string;
  readonly sentence: string;
  readonly evidence: readonly string[];
}

export type NewPostMortem = Pick<PostMortemRow, "kind" | "cause" | "sentence" | "evidence"> &
  Partial<Pick<PostMortemRow, "replicaId" | "runnerId" | "taskId" | "claimId" | "name" | "hostname">> & {
    /** Now, where it is not said. */
    readonly happenedAt?: Date | null;
  };

/** What the database knows about a replica that was declared dead, as of this moment. */
export interface DeadReplica {
  readonly replicaId: ReplicaId;
  readonly hostname: string;
  readonly version: string;
  readonly diedAt: Date;
  /** As it was written: see `readDeath`. */
  readonly death: unknown;
  readonly intervalMs: number | null;
  /** Its heart had a session whose end would have been seen… */
  readonly hadSession: boolean;
  /** …and holds its lock to this moment. */
  readonly holdsSession: boolean;
  readonly livedForMs: number;
  readonly running: number;
  /** Of those that it was running: some that had told it to stop. */
  readonly stoppers: readonly { readonly id: string; readonly name: string }[];
  /** Some of those that it was running in threads, the last that it claimed first. */
  readonly inThreads: readonly { readonly id: string; readonly name: string }[];
  readonly vitals: Readonly<Record<string, number>> | null;
  /** Of its last beats on record, the oldest first. */
  readonly beats: readonly { readonly agoMs: number; readonly vitals: Readonly<Record<string, number>> | null }[];
  /** Replicas of the same machine that were there when it died, and those of them that went at the same time. */
  readonly neighbours: number;
  readonly neighboursGone: number;
  /**
   * Of other replicas that have a task or a queue in common with it: those that were leaving, those that had left at about that time, and the
   * version of those that were just started, where it is another.
   */
  readonly othersLeaving: number;
  readonly othersLeft: number;
  readonly newVersion: string | null;
  /** How long after its death it was here again, and how it came back; null: it was not. */
  readonly backAfterMs: number | null;
  readonly backHow: "fenced" | "refused" | null;
}

/** Within a transaction: whatever stands in the way of its statements does so for no longer than that. */
export async function limitPatience(
  tx: Store,
  { statementMs, lockMs }: { statementMs: number; lockMs: number },
): Promise<void> {
  await tx.query("select set_config('statement_timeout', $1, true), set_config('lock_timeout', $2, true)", [
    String(statementMs),
    String(lockMs),
  ]);
}

// Replicas of one machine went at the same time where their sessions were seen free within half a second of each other (the
// next victim of a task that kills workers goes no sooner than the first is known to be dead), or, without sessions, where
// their last beats are as close as beats are.

/** In a deploy, a process leaves within this time of another's… */
const LEFT_WITHIN = "interval '10 seconds'";
/** …and has taken the place of one that goes for no longer than this. */
const STARTED_WITHIN = "interval '2 minutes'";

/** One sentence names them. */
const MOST_NAMED = 5;

/** Of a replica `r`: dead, and nobody has asked why. */
const isUnexamined = (s: string) =>
  `r.status = 'dead' and not exists (select from ${s}.post_mortem p where p.replica_id = r.id and p.kind = 'replica')`;

/** The first to die first. */
export async function findUnexamined(store: Store, limit: number): Promise<ReplicaId[]> {
  const rows = await store.query<{ id: ReplicaId }>(
    `select r.id::text as id from ${store.schema}.replica r where ${isUnexamined(store.schema)} order by r.died_at limit $1`,
    [limit],
  );
  return rows.map(({ id }) => id);
}

/** Those of these replicas that nobody else has examined meanwhile. */
export async function readUnexamined(
  store: Store,
  replicas: readonly ReplicaId[],
  /** Neighbours that have missed so many of their beats are gone, too; together with it, if their last beat was no further from its last. */
  beats: { readonly missed: number; readonly latest: number },
): Promise<DeadReplica[]> {
  const s = store.schema;
  const ms = (interval: string) => `(extract(epoch from ${interval}) * 1000)::float8`;
  return store.query<DeadReplica>(
    `select r.id::text as "replicaId", r.hostname, r.version, r.died_at as "diedAt", r.death, h.interval_ms as "intervalMs", ${s}.vitals_of(h.signs) as vitals,
            ${s}.session_counts(h, l) as "hadSession",
            coalesce(${s}.session_counts(h, l) and h.session_key = any (${s}.held_sessions()), false) as "holdsSession",
            ${ms("r.died_at - r.started_at")} as "livedForMs",
            (select count(*)::int from ${s}.running u where u.replica_id = r.id and u.state = 'running') as running,
            (select coalesce(json_agg(t), '[]') from (
               select x.task_id as id, x.name from ${s}.stoppers_of(r.id) x order by x.claim_id limit ${MOST_NAMED}) t) as stoppers,
            (select coalesce(json_agg(t), '[]') from (
               select u.task_id as id, u.name from ${s}.running u join ${s}.definition d on d.name = u.name
               where u.replica_id = r.id and u.state = 'running' and d.run_in = 'thread'
               order by u.claim_id desc limit ${MOST_NAMED}) t) as "inThreads",
            (select coalesce(json_agg(b order by b."agoMs" desc), '[]') from (
               select ${ms("r.died_at - b.beat_at")} as "agoMs", ${s}.vitals_of(b.signs) as vitals from ${s}.beat_history b
               where b.replica_id = r.id order by b.beat_at desc limit 5) b) as beats,
            n.neighbours, n.gone as "neighboursGone", d.leaving as "othersLeaving", d.gone as "othersLeft", d.version as "newVersion",
            ${ms("r.came_back_at - r.died_at")} as "backAfterMs", r.came_back_how as "backHow"
     from ${s}.replica r
     left join ${s}.heart h on h.replica_id = r.id
     left join ${s}.listening l on true
     cross join lateral (
       select count(*)::int as neighbours, (count(*) filter (where o.is_gone))::int as gone
       from (
         select x.status in ('online', 'draining') as is_here, case
             when xh.session_free_since < 'infinity' and h.session_free_since < 'infinity'
             then abs(extract(epoch from xh.session_free_since - h.session_free_since)) < 0.5
             else (x.status = 'dead' or ${s}.silent_ms(xh, x.started_at, l) > $2::float8 * xh.interval_ms)
                  and abs(extract(epoch from xh.beat_at - h.beat_at)) * 1000 <= $3::float8 * greatest(xh.interval_ms, h.interval_ms)
           end as is_gone
         from ${s}.replica x join ${s}.heart xh on xh.replica_id = x.id
         where x.machine_id = r.machine_id and x.id <> r.id and x.status <> 'offline' and x.started_at < r.died_at) o
       where o.is_here or o.is_gone) n
     cross join lateral (
       select (count(*) filter (where o.status = 'draining'))::int as leaving,
              (count(*) filter (where o.status = 'offline' and o.seen_at between w.went_at - ${LEFT_WITHIN} and w.went_at + ${LEFT_WITHIN}))::int as gone,
              max(o.version) filter (where o.version <> r.version and o.started_at > w.went_at - ${STARTED_WITHIN}) as version
       from ${s}.replica o
       -- At the latest: it has not beaten again.
       cross join (select least(r.died_at, h.session_free_since, h.beat_at + make_interval(secs => h.interval_ms / 1000.0)) as went_at) w
       where o.id <> r.id and (o.tasks && r.tasks or o.queues && r.queues)) d
     where r.id = any ($1) and ${isUnexamined(s)}
     order by r.died_at`,
    [replicas, beats.missed, beats.latest],
  );
}

/** One statement. What is on record already stays as it is. */
export async function writePostMortems(store: Store, postMortems: readonly NewPostMortem[]): Promise<void> {
  await store.query(
    `insert into ${store.schema}.post_mortem
       (kind, replica_id, runner_id, task_id, claim_id, name, hostname, happened_at, cause, sentence, evidence)
     select kind, "replicaId", "runnerId", "taskId", "claimId", name, hostname, coalesce("happenedAt", now()), cause, sentence, evidence
     from json_to_recordset($1::json) as x (kind text, "replicaId" uuid, "runnerId" text, "taskId" uuid, "claimId" bigint, name text,
       hostname text, "happenedAt" timestamptz, cause text, sentence text, evidence text[])
     on conflict do nothing`,
    // What tasks and processes said last is in it, and that may be anything.
    [
      JSON.stringify(
        postMortems.map(({ sentence, evidence, ...rest }) => ({
          ...{ ...rest, sentence: storableText(sentence), evidence: evidence.map(storableText) },
        })),
      ),
    ],
  );
}

/**
 * It was not dead: what was concluded from its death is put right, and the evidence for that is kept. False: somebody has locked some of it, and that
 * part is as it was.
 */
export async function correctPostMortems(
  store: Store,
  replicaId: ReplicaId,
  { cause, sentence, line }: { cause: string; sentence: string; line: string },
): Promise<boolean> {
  const wrong = `select id from ${store.schema}.post_mortem where replica_id = $1 and kind in ('replica', 'attempt') and cause <> $2`;
  const [row] = await store.query<{ done: boolean }>(
    `with corrected as (
       update ${store.schema}.post_mortem set cause = $2, sentence = $3, evidence = evidence || $4::text
       where id = any (array(${wrong} for update skip locked)) returning id
     )
     select not exists (${wrong} and id not in (select id from corrected)) as done`,
    [replicaId, cause, sentence, line],
  );
  return row?.done === true;
}

export interface PostMortemFilter {
  readonly kind?: PostMortemKind | undefined;
  readonly cause?: string | undefined;
  /** Its own number… */
  readonly id?: string | undefined;
  /** …or the id of the replica, the runner or the task that it is about. */
  readonly about?: string | undefined;
}

/** The latest first. */
export async function listPostMortems(store: Store, filter: PostMortemFilter, limit: number): Promise<PostMortemRow[]> {
  return store.query<PostMortemRow>(
    `select id, kind, replica_id::text as "replicaId", runner_id as "runnerId", task_id::text as "taskId", claim_id as "claimId", name,
            hostname, happened_at as "happenedAt", cause, sentence, evidence
     from ${store.schema}.post_mortem
     where ($1::text is null or kind = $1) and ($2::text is null or cause = $2)
       and ($3::bigint is null or id = $3)
       and ($4::uuid is null or task_id = $4 or kind = 'replica' and replica_id = $4 or kind = 'runner' and runner_id = $4::text)
     order by id desc limit $5`,
    [filter.kind ?? null, filter.cause ?? null, filter.id ?? null, filter.about ?? null, limit],
  );
}

/** Those of these replicas that have one. */
export async function readConclusions(
  store: Store,
  replicaIds: readonly ReplicaId[],
): Promise<{ replicaId: ReplicaId; cause: string; sentence: string; evidence: string[] }[]> {
  return store.query(
    `select replica_id::text as "replicaId", cause, sentence, evidence from ${store.schema}.post_mortem
     where kind = 'replica' and replica_id = any ($1)`,
    [replicaIds],
  );
}
