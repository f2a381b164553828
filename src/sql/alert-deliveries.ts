/** Changes of alerts on their way to channels. Written by whatever changes an alert (tell_of_alert), and taken here by whoever has the channel. */
import type { AlertChange, AlertRow } from "../alert-kinds.ts";
import type { Store } from "../database/database.ts";
import { ALERT_COLUMNS, type StoredAlert, toAlertRow } from "./alerts.ts";

export interface Delivery {
  readonly change: AlertChange;
  readonly alert: AlertRow;
  /** With this one. It is also the right to say that this try has failed. */
  readonly tries: number;
}

/** From now on every change is on record for this channel, until no process has it any more. */
export async function noteChannel(store: Store, name: string): Promise<void> {
  await store.query(`select ${store.schema}.note_channel($1)`, [name]);
}

/** No process has a delivery for longer, nor is a pause after so many tries longer: a minute, or 2 ^ (tries - 1) seconds up to ten minutes. */
const LONGEST_AHEAD = "make_interval(secs => greatest(60, least(2 ^ least(d.tries, 20), 600)))";

/**
 * What is further ahead was written by a clock that has been set back since: it is due now. Compared with the clock as it is, and not with `now()`, when this
 * transaction began: another process may have begun later, and may have taken the row before this statement comes to it.
 */
const DUE_AT = `case when d.next_try_at > clock_timestamp() + ${LONGEST_AHEAD} then now() else d.next_try_at end`;

/** Of the channel $1. An alert is told to be resolved only after it was told to be raised. One that has left the record is not told of. */
const isOnItsWay = (s: string) => `d.channel = $1 and d.delivered_at is null
  and (d.change = 'raised' or not exists (
    select from ${s}.alert_delivery b
    where b.alert_id = d.alert_id and b.channel = $1 and b.change = 'raised' and b.delivered_at is null))
  and exists (select from ${s}.alert a where a.id = d.alert_id)`;

/** Takes some that are due, for so long: if this process dies, another one takes them after that. */
export async function takeDeliveries(
  store: Store,
  { channel, leaseMs, limit }: { channel: string; leaseMs: number; limit: number },
): Promise<Delivery[]> {
  const s = store.schema;
  const rows = await store.query<StoredAlert & Omit<Delivery, "alert">>(
    `with due as (
       select d.alert_id, d.change from ${s}.alert_delivery d
       where ${isOnItsWay(s)} and ${DUE_AT} <= now()
       order by d.next_try_at limit $2 for update of d skip locked
     ), taken as (
       update ${s}.alert_delivery d set tries = tries + 1, next_try_at = now() + make_interval(secs => $3::float8 / 1000)
       from due where d.alert_id = due.alert_id and d.change = due.change and d.channel = $1
       returning d.alert_id, d.change, d.tries
     )
     select ${ALERT_COLUMNS}, t.change, t.tries from taken t join ${s}.alert a on a.id = t.alert_id order by a.id, t.change`,
    [channel, limit, leaseMs],
  );
  return rows.map(({ change, tries, ...alert }) => ({ change, tries, alert: toAlertRow(alert) }));
}

export async function noteDelivered(store: Store, channel: string, { alert, change }: Delivery): Promise<void> {
  await store.query(
    `update ${store.schema}.alert_delivery set delivered_at = now(), last_error = null
     where alert_id = $1 and change = $2 and channel = $3 and delivered_at is null`,
    [alert.id, change, channel],
  );
}

/** Unless another process has taken it since then. */
export async function noteUndelivered(
  store: Store,
  channel: string,
  { alert, change, tries, error, againInMs }: Delivery & { error: string; againInMs: number },
): Promise<void> {
  await store.query(
    `update ${store.schema}.alert_delivery set last_error = $5, next_try_at = now() + make_interval(secs => $6::float8 / 1000)
     where alert_id = $1 and change = $2 and channel = $3 and tries = $4 and delivered_at is null`,
    [alert.id, change, channel, tries, error, againInMs],
  );
}

/** Until the next one of this channel can be taken. Undefined: none is on its way. Less than 0: somebody has locked one that is due. */
export async function nextDeliveryMs(store: Store, channel: string): Promise<number | undefined> {
  const s = store.schema;
  const [row] = await store.query<{ ms: number | null }>(
    `select (extract(epoch from min(${DUE_AT}) - now()) * 1000)::float8 as ms from ${s}.alert_delivery d where ${isOnItsWay(s)}`,
    [channel],
  );
  return row?.ms ?? undefined;
}
