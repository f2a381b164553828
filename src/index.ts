/** The public names, and nothing else. */

export type { Advice, AdvisedOperation } from "./advice.ts";
export { ALERT_KINDS, type AlertChange, type AlertKind, type AlertRow, type AlertSeverity } from "./alert-kinds.ts";
export type { AlertQuery } from "./alerts/alert-orders.ts";
export type { AlertChannel, ChangedAlert } from "./config/alert-channels.ts";
export type { Duration } from "./config/duration.ts";
export type { MemorySize } from "./config/memory-size.ts";
export type { DatabaseOption, OpenOptions } from "./config/open-options.ts";
export { InvalidOptionsError } from "./config/problems.ts";
export { PROFILES, type ProfileName, type RecoveryOptions, type RecoverySettings } from "./config/recovery-options.ts";
export {
  ClosedError,
  DatabaseFullError,
  DatabaseUnavailableError,
  MigrationChangedError,
  PoolExhaustedError,
  RoutinesTooOldError,
  SchemaMissingError,
  SchemaTooNewError,
  SchemaTooOldError,
  TransactionEndedError,
  TransactionRolledBackError,
  UnsupportedServerError,
} from "./database/errors.ts";
export type { MigrationReport } from "./database/migrate.ts";
export type { SchemaState } from "./database/schema-state.ts";
export type { Finding } from "./doctor/finding.ts";
export { type ErrorKind, EverbeatError } from "./errors.ts";
export type { EventName, EverbeatEvents, TaskRef } from "./events.ts";
export { type EnqueueArguments, Everbeat, type ManyOptions, type TaskHandle } from "./everbeat.ts";
export type { FollowOptions, ReplicaUpdate, TaskUpdate } from "./following/follow.ts";
export type { Logger, LogLevel } from "./log.ts";
export type { EnqueueOptions } from "./queue/enqueue-options.ts";
export type { QueueOptions } from "./queue/queue-orders.ts";
export type { TaskByName } from "./queue/task-by-name.ts";
export type { CancelOptions, OrderProgress, TaskPage, TaskQuery } from "./queue/task-orders.ts";
export type { Because, Explanation } from "./recovery/explain.ts";
export type { HeartState, ReplicaWithHeart } from "./recovery/heart-state.ts";
export { HoldLockedError } from "./recovery/hold-locked.ts";
export { PartlyRecoveredError, type RefusedRecovery } from "./recovery/partly-recovered.ts";
export type { PostMortemQuery } from "./recovery/post-mortem-query.ts";
export type { Cause } from "./recovery/probable-cause.ts";
export type { QuarantineQuery } from "./recovery/quarantine.ts";
export type { ConfirmOptions, RecoveryCount, StaleQuery } from "./recovery/recovery-orders.ts";
export type { Reliability } from "./recovery/reliability.ts";
export type { ExitReport } from "./recovery/report-exit.ts";
export type { ReviewQuery } from "./recovery/review.ts";
export type { StaleTask } from "./recovery/stale-tasks.ts";
export type { RunnerOptions } from "./runner/runner-options.ts";
export type { ServiceReports } from "./services/process-services.ts";
export type { ReplicaSettings } from "./sql/fleet-settings.ts";
export type { Hold } from "./sql/holds.ts";
export type { MachineRow } from "./sql/machines.ts";
export type { CancelOutcome, Ordered, RetryOutcome } from "./sql/orders.ts";
export type { PostMortemKind, PostMortemRow } from "./sql/post-mortems.ts";
export type { LogLine, ProgressRow } from "./sql/progress.ts";
export type { QueueRow } from "./sql/queues.ts";
export type { Listening } from "./sql/recovery.ts";
export type { ReplicaRow } from "./sql/replicas.ts";
export type { ReviewTask } from "./sql/review.ts";
export type { RunnerRow } from "./sql/runners.ts";
export type { QuarantinedTask } from "./sql/suspicion.ts";
export type { AttemptRow, LateRow, TaskDetails, TaskSummary } from "./sql/tasks.ts";
export type { TurnRow } from "./sql/turns.ts";
export type { Claim, Middleware, TaskContext, TaskInfo, Transaction } from "./task/context.ts";
export {
  type BatchItem,
  defineBatchTask,
  defineTask,
  type InputOf,
  type OutputOf,
  type RetryOptions,
  type Task,
  type TaskOptions,
} from "./task/define-task.ts";
export type { ErrorRecord } from "./task/error-record.ts";
export {
  ClaimLostError,
  CompletedDifferentlyError,
  CompletionNotCommittedError,
  CutOffError,
  DuplicateTaskError,
  IdTakenError,
  InvalidInputError,
  NotInTransactionError,
  ReplicaGoneError,
  ResultNotStorableError,
  ResultTimeoutError,
  TaskCancelledError,
  TaskEndedError,
  TaskNotFoundError,
  TaskTimedOutError,
  WorkerStoppingError,
} from "./task/errors.ts";
export type { HandlerLog, LogCall } from "./task/handler-log.ts";
export type { ClaimId, ReplicaId, TaskId } from "./task/ids.ts";
export type { ProgressValue } from "./task/progress.ts";
export {
  type AttemptOutcome,
  ENDED_STATES,
  type EndedState,
  TASK_STATES,
  TASK_TRANSITIONS,
  type TaskState,
} from "./task/states.ts";
export type { WorkOptions } from "./worker/options.ts";
export type { Worker } from "./worker/worker.ts";
