/** Alerts: durable, and one for each kind and subject while it is open. */
import type { Advice } from "../advice.ts";
import { adviceOnAlert } from "../alert-advice.ts";
import { type AlertKind, type AlertSeverity, kindsOf, type NewAlert, severityOf } from "../alert-kinds.ts";
import type { Store } from "../database/database.ts";
import type { TaskId } from "../task/ids.ts";
import { isSeenToBeOver } from "./alert-causes.ts";

export interface AlertRow {
  readonly id: string;
  readonly kind: string;
  readonly severity: AlertSeverity;
  readonly subject: string;
  readonly message: string;
  readonly details: unknown;
  readonly advice: readonly Advice[];
  readonly raisedAt: Date;
  /** It is met again for as long as it is open, which is noted at most twice a minute. */
  readonly lastRaisedAt: Date;
  readonly times: number;
  readonly resolvedAt: Date | null;
}

export interface AlertFilter {
  readonly open?: boolean | undefined;
  readonly kind?: string | undefined;
  readonly subject?: string | undefined;
  /** Raised or resolved since then. */
  readonly since?: Date | undefined;
  readonly limit: number;
}

const COLUMNS = `id, kind, subject, message, details, raised_at as "raisedAt", last_raised_at as "lastRaisedAt", times, resolved_at as "resolvedAt"`;

/** Newest first. */
export async function listAlerts(
  store: Store,
  { open, kind, subject, since, limit }: AlertFilter,
): Promise<AlertRow[]> {
  const rows = await store.query<Omit<AlertRow, "severity" | "advice">>(
    `select ${COLUMNS} from ${store.schema}.alert
     where ($1::boolean is null or $1 = (resolved_at is null)) and ($2::text is null or kind = $2) and ($3::text is null or subject = $3)
       and ($4::timestamptz is null or coalesce(resolved_at, raised_at) >= $4)
     order by id desc limit $5`,
    [open ?? null, kind ?? null, subject ?? null, since ?? null, limit],
  );
  return rows.map((row) => ({ ...row, severity: severityOf(row.kind), advice: adviceOnAlert(row) }));
}

/** For whoever meets the cause again and again. False: it is open already. */
export async function raiseAlert(store: Store, alert: NewAlert): Promise<boolean> {
  const [row] = await store.query<{ isNew: boolean }>(
    `select ${store.schema}.raise_alert($1, $2, $3, $4::json, $5) as "isNew"`,
    [alert.kind, alert.subject, alert.message, JSON.stringify(alert.details ?? null), alert.part ?? null],
  );
  return row?.isNew === true;
}

export async function resolveAlert(store: Store, kind: AlertKind, subject: string): Promise<void> {
  await store.query(`select ${store.schema}.resolve_alert($1, $2)`, [kind, subject]);
}

/** What a process says of an alert: that it is raised, and whether for the first time; or that it is resolved. */
export interface AlertWord {
  readonly kind: AlertKind;
  readonly subject: string;
  readonly raise: NewAlert | undefined;
  readonly isAnew: boolean;
}

export type WordBecame = "new" | "open" | "resolved" | "locked";

/** All in one statement. Answers in the same order. `locked`: somebody has locked the alert, and nothing was written about it. */
export async function writeAlerts(store: Store, words: readonly AlertWord[]): Promise<WordBecame[]> {
  const rows = await store.query<{ became: WordBecame }>(
    `select became from ${store.schema}.write_alerts($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::boolean[]) order by place`,
    [
      words.map(({ kind }) => kind),
      words.map(({ subject }) => subject),
      words.map(({ raise }) => raise?.message ?? null),
      words.map(({ raise }) => JSON.stringify(raise?.details ?? null)),
      words.map(({ raise }) => raise?.part ?? null),
      words.map(({ isAnew }) => isAnew),
    ],
  );
  return rows.map(({ became }) => became);
}

/** All of this kind that are about this part of a service, but for those about these subjects. */
export async function resolveOtherAlerts(
  store: Store,
  { kind, part, subjects }: { kind: AlertKind; part: string; subjects: readonly string[] },
): Promise<void> {
  await store.query(
    `update ${store.schema}.alert set resolved_at = now()
     where ${unlocked(store, "kind = $1 and part = $2 and subject <> all ($3)")}`,
    [kind, part, subjects],
  );
}

/** A process says each minute that it still keeps an alert open. */
const KEPT_FOR = "interval '15 minutes'";

/**
 * In every sweep: the alerts whose cause is over, and which nobody else resolves. Those about stalls of all other tasks, which get on again or have ended;
 * those whose cause is on record no more; those that nobody keeps open any more.
 */
export async function resolveEndedAlerts(store: Store, stalled: readonly TaskId[]): Promise<void> {
  const isOver = `(
    kind = 'task-stalled' and subject <> all ($1)
    or kind = any ($2) and last_raised_at < now() - ${KEPT_FOR}
    or ${isSeenToBeOver(store.schema, "alert")})`;
  await store.query(`update ${store.schema}.alert set resolved_at = now() where ${unlocked(store, isOver)}`, [
    ...[stalled, kindsOf("kept")],
  ]);
}

/** The open alerts of which this is true. One that somebody has locked is left: a sweep must not wait for it. */
function unlocked({ schema }: Store, condition: string): string {
  return `id = any (array(select id from ${schema}.alert where ${condition} and resolved_at is null for update skip locked))`;
}
