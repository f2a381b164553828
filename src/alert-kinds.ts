/**
 * The one table of alerts: every kind that there is, with what it is about, what it carries and when it is over. Raising takes a kind of this table
 * with its details, in TypeScript by the compiler, and in SQL by a test (test/unit/alert-kinds.test.ts).
 */
import type { Advice } from "./advice.ts";
import type { ErrorRecord } from "./task/error-record.ts";
import type { ClaimId, ReplicaId } from "./task/ids.ts";

/** `critical`: nothing is recovered, or nothing is claimed, for as long as it lasts. */
export type AlertSeverity = "warning" | "critical";

/**
 * How an open alert is known to be over when whoever raised it may be gone:
 *
 * - `on-record`  the database shows whether its cause stands (src/sql/alert-causes.ts). A sweep resolves it, and it stays until then. One kind of them is
 *                looked at only when it is old, because that takes long.
 * - `kept`       a process keeps it open, and says so each minute. A sweep resolves it when nobody has said so for a quarter of an hour.
 * - `met`        whoever meets the cause raises it again. It leaves the record when nobody has raised it again for `postMortemAge`.
 */
export type AlertCause = "on-record" | "kept" | "met";

export interface AlertKindEntry<Details, Part> {
  readonly severity: AlertSeverity;
  readonly cause: AlertCause;
  /** What an alert of this kind is about. One is open for each of them at most. */
  readonly subject: string;
  /** What is wrong, in a sentence for people. */
  readonly means: string;
  /** When it is resolved. */
  readonly over: string;
  /** Types only. `part`: a column by which alerts of this kind are found again. */
  readonly carries?: { readonly details: Details; readonly part: Part };
}

/** The source of silence whose hold keeps tasks from being recovered. */
export const HEARTS = "hearts";

/** The `part` of such an alert is the source, too: its hold is found by that. */
interface MassDeath {
  /** Whose hold it is: `hearts`, or another source by its name. */
  readonly source: string;
  /** What fell silent together, in the plural: "machines". */
  readonly counted: string;
  /** How many of them there are. */
  readonly groups: number;
  readonly dying: number;
  readonly heldForMs: number | undefined;
  readonly isConfirmed: boolean;
}

export const ALERT_KINDS = {
  "mass-death": kind<MassDeath, string>({
    ...{ severity: "critical", cause: "on-record", subject: "`hearts`, or another source of silence" },
    means: "So many machines, or so many of another source, fell silent at once that recovery is held for a while.",
    over: "when recovery goes on",
  }),
  "sweeps-stopped": kind<{ sweptAgoMs: number; sweptBy: string | null }>({
    ...{ severity: "critical", cause: "on-record", subject: "the fleet" },
    means: "Nobody has listened for silence for too long, so no death is noticed.",
    over: "with the next sweep",
  }),
  "claims-failing": kind<{ reason: string }>({
    ...{ severity: "critical", cause: "kept", subject: "a queue" },
    means: "Every claim from the queue fails, and no task is to blame.",
    over: "when a claim from the queue goes through",
  }),
  "crash-loop": kind<{ child: number; exitsInARow: number; exitCode: number | null; signal: string | null }>({
    ...{ severity: "critical", cause: "kept", subject: "a child of a supervisor" },
    means: "A child ended so often in a row that it is not started again.",
    over: "when a child is ready in its place, or its supervisor is gone",
  }),
  "queue-not-usable": kind<{ reason: string }>({
    ...{ severity: "critical", cause: "on-record", subject: "a queue" },
    means: "The queue was paused because nothing can be claimed from it.",
    over: "when the queue is resumed or its limits are set anew",
  }),
  "runners-suspended": kind<{ replicaId: ReplicaId; failures: number; message: string }>({
    ...{ severity: "critical", cause: "kept", subject: "a kind of runner of a replica" },
    means: "No thread or process for tasks can be started there.",
    over: "when one has started, or the replica is gone",
  }),
  "queue-locked": kind({
    ...{ severity: "warning", cause: "kept", subject: "a queue" },
    means: "Another transaction keeps the queue's row locked, so that its tasks are not claimed.",
    over: "when the lock is gone",
  }),
  "not-claimable": kind<{ task: string; queue: string; reason: string }>({
    ...{ severity: "warning", cause: "on-record", subject: "a task's name" },
    means: "A task of this name could not be claimed, and was set aside.",
    over: "when one of the tasks is retried",
  }),
  "outcome-stuck": kind<undefined, ClaimId>({
    ...{ severity: "warning", cause: "on-record", subject: "a task" },
    means: "The outcome of a task cannot be written.",
    over: "when it was written, or its claim is gone",
  }),
  "task-stalled": kind<ErrorRecord & { quietForMs: number; claimId: ClaimId; replicaId: ReplicaId }, ClaimId>({
    ...{ severity: "warning", cause: "on-record", subject: "a task" },
    means: "A task is alive and makes no progress.",
    over: "when it gets on, or its attempt has ended",
  }),
  "loop-blocked": kind<{ blockedLoop: number; stack: string | null; tasks: unknown }>({
    ...{ severity: "warning", cause: "on-record", subject: "a replica or a runner" },
    means: "A main thread does not turn its event loop.",
    over: "when the loop turns again, or its process is gone",
  }),
  "child-still": kind({
    ...{ severity: "warning", cause: "kept", subject: "a child of a supervisor" },
    means: "A child stood still, and its supervisor has killed it to start another.",
    over: "when a child is ready in its place, or its supervisor is gone",
  }),
  "log-dropped": kind<undefined, ReplicaId | undefined>({
    ...{ severity: "warning", cause: "kept", subject: "a process" },
    means: "Lines of a log are dropped, because they cannot be written.",
    over: "when lines are written again, or the process is gone",
  }),
  "roll-stopped": kind({
    ...{ severity: "warning", cause: "kept", subject: "a supervisor" },
    means: "A new child did not become ready, so a rolling restart was stopped.",
    over: "when a rolling restart is done, or the supervisor is gone",
  }),
  "service-stuck": kind<{ service: string; replicaId: ReplicaId; runsForMs: number }>({
    ...{ severity: "warning", cause: "kept", subject: "a service in a process" },
    means: "A run of a service does not end, though it was asked to. Other processes run the service.",
    over: "when the run has ended, or the process is gone",
  }),
  "sweep-passed-by": kind<{ code: string; message: string }, string>({
    ...{ severity: "warning", cause: "met", subject: "what failed" },
    means: "One thing failed in a sweep, and the rest of the sweep was done.",
    over: "when it could be done, or is gone",
  }),
  "upkeep-passed-by": kind<{ code: string; message: string }, string>({
    ...{ severity: "warning", cause: "met", subject: "what failed" },
    means: "One thing failed in the upkeep or the removal of what is old, and the rest of it was done.",
    over: "when it could be done, or is gone",
  }),
} as const;

type Table = typeof ALERT_KINDS;
export type AlertKind = keyof Table;

type Carried<Kind extends AlertKind> = NonNullable<Table[Kind]["carries"]>;
type Needed<Key extends string, Value> = undefined extends Value
  ? { readonly [Each in Key]?: Value }
  : { readonly [Each in Key]: Value };

/** What is said where an alert is raised. */
export type NewAlert<Kind extends AlertKind = AlertKind> = {
  [Each in Kind]: { readonly kind: Each; readonly subject: string; readonly message: string } & Needed<
    "details",
    Carried<Each>["details"]
  > &
    Needed<"part", Carried<Each>["part"]>;
}[Kind];

/** One on record: an episode of what its subject suffers. Earlier ones of the same subject are its history. */
export interface AlertRow {
  readonly id: string;
  /** One of `ALERT_KINDS`, or one that only a newer version knows. */
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

export type AlertChange = "raised" | "resolved";

/** With its time: after a failover the ids of alerts that were lost come again. */
export function changeId({ alert, change }: { alert: AlertRow; change: AlertChange }): string {
  const at = change === "raised" ? alert.raisedAt : alert.resolvedAt;
  return `${alert.id} ${change} ${at?.getTime()}`;
}

/** An alert on record may be of a kind that only a newer version knows. */
export function severityOf(name: string): AlertSeverity {
  return isAlertKind(name) ? ALERT_KINDS[name].severity : "warning";
}

export function isAlertKind(name: string): name is AlertKind {
  return Object.hasOwn(ALERT_KINDS, name);
}

export const ALERT_KIND_NAMES = Object.keys(ALERT_KINDS) as AlertKind[];

/** For statements. */
export function kindsOf(cause: AlertCause): readonly AlertKind[] {
  return ALERT_KIND_NAMES.filter((name) => ALERT_KINDS[name].cause === cause);
}

function kind<Details = undefined, Part = undefined>(
  entry: Omit<AlertKindEntry<Details, Part>, "carries"> & { readonly cause: "on-record" },
): AlertKindEntry<Details, Part> & { readonly cause: "on-record" };
function kind<Details = undefined, Part = undefined>(
  entry: Omit<AlertKindEntry<Details, Part>, "carries">,
): AlertKindEntry<Details, Part> & { readonly cause: "kept" | "met" };
function kind(entry: AlertKindEntry<unknown, unknown>): AlertKindEntry<unknown, unknown> {
  return entry;
}
