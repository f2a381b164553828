/** Alerts: durable, and one for each kind and subject while it is open. */
import { adviceOnAlert } from "../alert-advice.ts";
import { type AlertChange, type AlertKind, type AlertRow, kindsOf, type NewAlert, severityOf } from "../alert-kinds.ts";
import type { Store } from "../database/database.ts";
import { isSeenToBeOver, SEEN_IN_EACH_SWEEP } from "./alert-causes.ts";

export interface AlertFilter {
  readonly open?: boolean | undefined;
  readonly kind?: string | undefined;
  readonly subject?: string | undefined;
  /** Open, or resolved since then. */
  readonly since?: Date | undefined;
  readonly limit: number;
}

export const ALERT_COLUMNS = `id, kind, subject, message, details, raised_at as "raisedAt", last_raised_at as "lastRaisedAt", times, resolved_at as "resolvedAt"`;

/** Newest first. */
export async function listAlerts(
  store: Store,
  { open, kind, subject, since, limit }: AlertFilter,
): Promise<AlertRow[]> {
  const rows = await store.query<StoredAlert>(
    `select ${ALERT_COLUMNS} from ${store.schema}.alert
     where ($1::boolean is null or $1 = (resolved_at is null)) and ($2::text is null or kind = $2) and ($3::text is null or subject = $3)
       and ($4::timestamptz is null or resolved_at is null or resolved_at >= $4)
     order by id desc limit $5`,
    [open ?? null, kind ?? null, subject ?? null, since ?? null, limit],
  );
  return rows.map(toAlertRow);
}

export type StoredAlert = Omit<AlertRow, "severity" | "advice">;

/** With what the code makes of it, which is not on record. */
export function toAlertRow(row: StoredAlert): AlertRow {
  return { ...row, severity: severityOf(row.kind), advice: adviceOnAlert(row) };
}

export interface ChangedAlert {
  readonly change: AlertChange;
  readonly alert: AlertRow;
  /** To the microsecond. */
  readonly at: string;
  /** Dated by a clock that has been set back since. */
  readonly isAhead: boolean;
}

export interface ChangesAsked {
  readonly withinMs: number;
  /** Ignored where it is yet to come: the clock was set back. */
  readonly since: Date;
  /** By notices. */
  readonly named: readonly { readonly id: string; readonly change: AlertChange }[];
  /** Those that come later than this one. */
  readonly after: ChangedAlert | undefined;
  readonly limit: number;
}

/** What has changed within that time and since then, and what notices named, in its order: at most so many. */
export async function readAlertChanges(store: Store, asked: ChangesAsked): Promise<ChangedAlert[]> {
  const { withinMs, since, named, after, limit } = asked;
  const rows = await store.query<StoredAlert & Omit<ChangedAlert, "alert">>(
    `select ${ALERT_COLUMNS}, c.change, c.at::text as at, c.at > now() as "isAhead"
     from ${store.schema}.alert a, lateral (values ('raised', a.raised_at), ('resolved', a.resolved_at)) as c (change, at)
     where c.at is not null
       and (c.at >= now() - make_interval(secs => $1::float8 / 1000) and (c.at >= $2 or $2 > now())
         or (a.id, c.change) in (select * from unnest($3::bigint[], $4::text[])))
       and ($5::timestamptz is null or (c.at, a.id, c.change) > ($5, $6::bigint, $7))
     order by c.at, a.id, c.change limit $8`,
    [
      ...[withinMs, since, named.map(({ id }) => id), named.map(({ change }) => change)],
      ...[after?.at ?? null, after?.alert.id ?? null, after?.change ?? null, limit],
    ],
  );
  return rows.map(({ change, at, isAhead, ...alert }) => ({ change, at, isAhead, alert: toAlertRow(alert) }));
}

/** For whoever meets the cause again and again. False: it is open already. */
export async function raiseAlert(store: Store, alert: NewAlert): Promise<boolean> {
  const [row] = await store.query<{ isNew: boolean }>(
    `select ${store.schema}.raise_alert($1, $2, $3, $4::json, $5) as "isNew"`,
    [alert.kind, alert.subject, alert.message, JSON.stringify(alert.details ?? null), alert.part ?? null],
  );
  return row?.isNew === true;
}

/** The same, unless so many of its kind and part are open already: then the other one is raised, which stands for the rest. */
export async function raiseAlertUpTo(store: Store, most: number, alert: NewAlert, rest: NewAlert): Promise<boolean> {
  const s = store.schema;
  const [row] = await store.query<{ isNew: boolean }>(
    `select case
       when exists (select from ${s}.alert where kind = $1 and subject = $2 and resolved_at is null) or $8 > (
         select count(*) from ${s}.alert where kind = $1 and part = $5 and resolved_at is null and subject <> $6)
       then ${s}.raise_alert($1, $2, $3, $4::json, $5) else ${s}.raise_alert($1, $6, $7, $4::json, $5) end as "isNew"`,
    [
      ...[alert.kind, alert.subject, alert.message, JSON.stringify(alert.details ?? null), alert.part ?? null],
      ...[rest.subject, rest.message, most],
    ],
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
  await store.query(`select ${store.schema}.resolve_other_alerts($1, $2, $3)`, [kind, part, subjects]);
}

/** A process says each minute that it still keeps an alert open. Time in which nobody could write does not count (hearing_since). */
const KEPT_FOR = "interval '15 minutes'";

export interface OpenAlert {
  readonly id: string;
  readonly kind: string;
  readonly subject: string;
}

/** Those that `resolveEndedAlerts` looks at. */
export async function listEndlessAlerts(store: Store): Promise<OpenAlert[]> {
  return store.query<OpenAlert>(
    `select id, kind, subject from ${store.schema}.alert where resolved_at is null and kind = any ($1) order by id`,
    [[...kindsOf("kept"), ...SEEN_IN_EACH_SWEEP]],
  );
}

/**
 * All that are over, or those among these: the database shows it, or nobody keeps them open any more. Only `resolve_alerts` locks anything, since it waits
 * for nobody.
 */
export async function resolveEndedAlerts(store: Store, among?: readonly OpenAlert[]): Promise<void> {
  const s = store.schema;
  await store.query(
    `select ${s}.resolve_alerts(array(
       select id from ${s}.alert
       where ($1::bigint[] is null or id = any ($1)) and resolved_at is null
         and (kind = any ($2) and greatest(last_raised_at, (select hearing_since from ${s}.listening)) < now() - ${KEPT_FOR}
           or ${isSeenToBeOver(s, "alert")})))`,
    [among?.map(({ id }) => id) ?? null, kindsOf("kept")],
  );
}
