/** Alerts: durable, and one for each kind and subject while it is open. */
import type { Store } from "../database/database.ts";

export interface AlertRow {
  readonly id: string;
  readonly kind: string;
  readonly subject: string;
  readonly message: string;
  readonly raisedAt: Date;
  readonly resolvedAt: Date | null;
}

export async function listAlerts(store: Store, options: { onlyOpen: boolean; limit: number }): Promise<AlertRow[]> {
  return store.query<AlertRow>(
    `select id, kind, subject, message, raised_at as "raisedAt", resolved_at as "resolvedAt" from ${store.schema}.alert
     where not $1 or resolved_at is null order by id desc limit $2`,
    [options.onlyOpen, options.limit],
  );
}

export interface NewAlert {
  readonly kind: string;
  /** Of a service, by which its alerts are found again. */
  readonly part?: string;
  readonly subject: string;
  readonly message: string;
  readonly details?: unknown;
}

/** Durable, and once while it stays open. False: it is open already. */
export async function raiseAlert(store: Store, alert: NewAlert): Promise<boolean> {
  const [row] = await store.query<{ isNew: boolean }>(
    `select ${store.schema}.raise_alert($1, $2, $3, $4::json, $5) as "isNew"`,
    [alert.kind, alert.subject, alert.message, JSON.stringify(alert.details ?? null), alert.part ?? null],
  );
  return row?.isNew === true;
}

export async function resolveAlerts(store: Store, kind: string, subject: string): Promise<void> {
  await store.query(
    `update ${store.schema}.alert set resolved_at = now() where ${unlocked(store, "kind = $1 and subject = $2")}`,
    [kind, subject],
  );
}

/** All of this kind that are about this part of a service, but for those about these subjects. */
export async function resolveOtherAlerts(
  store: Store,
  { kind, part, subjects }: { kind: string; part: string; subjects: readonly string[] },
): Promise<void> {
  await store.query(
    `update ${store.schema}.alert set resolved_at = now()
     where ${unlocked(store, "kind = $1 and part = $2 and subject <> all ($3)")}`,
    [kind, part, subjects],
  );
}

/**
 * Whether the cause of this open alert, a row of `alert`, still stands, for the kinds that nobody raises again while it does. The processes that
 * raise the other kinds raise them again for as long as they meet their cause.
 */
export function hasStandingCause(schema: string, row: string): string {
  return `case ${row}.kind
    when 'queue-not-usable' then exists (select from ${schema}.queue q where q.name = ${row}.subject and q.trouble is not null)
    when 'not-claimable' then exists (
      select from ${schema}.ended e left join ${schema}.task t on t.id = e.task_id
      where e.state = 'failed' and e.error_code = 'NOT_CLAIMABLE'
        and (t.name = ${row}.subject or e.task_id = (${row}.details ->> 'task')::uuid))
    -- Each sweep resolves those that are over (see resolveOtherStallAlerts).
    when 'loop-blocked' then true
    else false end`;
}

/** The open alerts of which this is true. One that somebody has locked is left: a sweep must not wait for it. */
export function unlocked({ schema }: Store, condition: string): string {
  return `id = any (array(select id from ${schema}.alert where ${condition} and resolved_at is null for update skip locked))`;
}
