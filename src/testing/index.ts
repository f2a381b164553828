/** The public names of `everbeat/testing`: helpers for your own tests, in whatever test runner. */
export type { EndedAttempt } from "../sql/testing.ts";
export { advanceTime } from "./advance-time.ts";
export { assertEnqueued, type EnqueuedExpectation } from "./assert-enqueued.ts";
export { type DrainOptions, DrainTimeoutError, drain } from "./drain.ts";
export { type EnqueuedFilter, type EnqueuedTask, enqueued, type InputMatch } from "./enqueued.ts";
export type { RecordedCompletion } from "./fake-claim.ts";
export type { HandlerOptions } from "./handler-options.ts";
export { openTestEverbeat } from "./open-test-everbeat.ts";
export type { LogLine } from "./recording-logger.ts";
export type { RecordedPhase, RecordedProgress } from "./recording-reports.ts";
export { type HandlerRun, runBatchHandler, runHandler } from "./run-handler.ts";
