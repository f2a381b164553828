/** What the database itself shows about the causes of alerts, for when whoever raised one is gone. */
import type { ALERT_KINDS, AlertKind } from "../alert-kinds.ts";
import { isBlockageLasting } from "./blocked-loops.ts";

type OnRecord = {
  [Kind in AlertKind]: (typeof ALERT_KINDS)[Kind] extends { cause: "on-record" } ? Kind : never;
}[AlertKind];

/** The subject of the one alert that stands for all that have none of their own. */
export const THE_REST = "and others";

/** Whether the cause of this open alert, a row of `alert`, is over. Null: that cannot be seen. */
type IsOver = (schema: string, row: string) => string;

const IS_OVER: Record<OnRecord, IsOver> & Partial<Record<AlertKind, IsOver>> = {
  "mass-death": (s, row) => `not exists (select from ${s}.hold h where h.source = ${row}.part and ${s}.hold_lasts(h))`,
  // Who looks is sweeping.
  "sweeps-stopped": () => "true",
  "queue-not-usable": (s, row) =>
    `not exists (select from ${s}.queue q where q.name = ${row}.subject and q.trouble is not null)`,
  "not-claimable": (s, row) => `not exists (
      select from ${s}.ended e left join ${s}.task t on t.id = e.task_id
      where e.state = 'failed' and e.error_code = 'NOT_CLAIMABLE'
        and (t.name = ${row}.subject or e.task_id = (${row}.details ->> 'task')::uuid))`,
  // As long as its attempt has said nothing of itself: that it cannot be judged at the moment does not mean that it gets on.
  "task-stalled": (s, row) => `not exists (
      select from ${s}.running r join ${s}.definition d on d.name = r.name left join ${s}.progress p on p.claim_id = r.claim_id
      where r.task_id = ${row}.subject::uuid and r.claim_id = ${row}.part::bigint and r.state = 'running' and r.cancel_requested_at is null
        and d.stalled_after_ms is not null
        and coalesce(${s}.quiet_ms(p.changed_at, r.started_at, null, now()) > d.stalled_after_ms, true))`,
  "loop-blocked": (s, row) => `not exists (
      select from ${s}.blocked_loop b where b.id = (${row}.details ->> 'blockedLoop')::bigint and ${isBlockageLasting(s, "b")})`,
  "outcome-stuck": (s, row) => `not exists (
      select from ${s}.running r where r.task_id = substr(${row}.subject, 6)::uuid and r.claim_id = ${row}.part::bigint)`,
  // Of a process with a worker.
  "log-dropped": (s, row) => `case when ${row}.part is not null then not exists (
      select from ${s}.replica r where r.id = ${row}.part::uuid and r.status in ('online', 'draining')) end`,
  // Of an ended task that could not be removed, or of all those beside the few that have an alert of their own.
  "upkeep-passed-by": (s, row) => `case when ${row}.part = 'purged tasks' then not exists (
      select from ${s}.not_purged n where n.told_as = ${row}.subject
        or ${row}.subject = '${THE_REST}' and not exists (
          select from ${s}.alert o where o.kind = 'upkeep-passed-by' and o.subject = n.told_as and o.resolved_at is null)) end`,
};

/** Without those for whose cause all ended tasks are searched. That takes long, and is done only where the alert is about to leave the record. */
export const SEEN_IN_EACH_SWEEP = (Object.keys(IS_OVER) as AlertKind[]).filter((kind) => kind !== "not-claimable");

/** For a sweep. The `case` keeps the details of other alerts from being taken apart: a handler may have said what is in them. */
export function isSeenToBeOver(schema: string, row: string): string {
  return isOver(schema, row, SEEN_IN_EACH_SWEEP);
}

/** For the purge of what is old: an open alert stays while its cause can be seen. */
export function hasStandingCause(schema: string, row: string): string {
  return `((${isOver(schema, row, Object.keys(IS_OVER) as AlertKind[])}) is false)`;
}

function isOver(schema: string, row: string, kinds: readonly AlertKind[]): string {
  return `case ${row}.kind ${kinds.map((kind) => `when '${kind}' then ${IS_OVER[kind]?.(schema, row)}`).join("\n")} end`;
}
