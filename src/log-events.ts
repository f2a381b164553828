/** The one subscriber that turns events into log lines. */
import { unknownKey } from "./config/checks.ts";
import type { AnyEventName, EventListener, EventName, Events, SupervisorEvents } from "./events.ts";
import type { Logger, LogLevel } from "./log.ts";
import { inOneLine, toErrorRecord } from "./task/error-record.ts";

type Line<N extends AnyEventName> = {
  level: Exclude<LogLevel, "silent">;
  message: (event: Parameters<EventListener<N>>[0]) => string;
};
type Lines<N extends AnyEventName> = { [Name in N]: Line<Name> };

const EVERBEAT_LINES: Lines<EventName> = {
  "worker.started": {
    level: "info",
    message: (e) => `worker started with ${e.tasks.length} tasks, concurrency ${e.concurrency}`,
  },
  "worker.stopping": { level: "info", message: (e) => `worker stopping, tasks still running: ${e.running}` },
  "worker.stopped": { level: "info", message: () => "worker stopped" },
  "task.started": { level: "debug", message: (e) => `${e.name} started` },
  "task.ended": {
    level: "debug",
    message: (e) =>
      `${e.name} ${e.outcome} after ${Math.round(e.durationMs)} ms${e.willRunAgain ? ", will run again" : ""}`,
  },
  "claim.lost": {
    level: "warn",
    message: (e) =>
      `${e.name} lost its claim ${e.claimId}${e.refusedOutcome ? `; "${e.refusedOutcome}" was refused` : ""}`,
  },
  "outcome.repeated": { level: "info", message: (e) => `${e.name} had been ended before; its reply was lost` },
  "handler.abandoned": {
    level: "warn",
    message: (e) => `${e.name} ignored its signal (${e.reason}) and was abandoned`,
  },
  "handler.failed-after-end": {
    level: "error",
    message: (e) => `${e.name}: something that its handler left behind failed after the attempt had ended: ${e.reason}`,
  },
  "retry.unless-threw": {
    level: "error",
    message: (e) => `${e.name}: its retry.unless threw, so the failure counts as worth a retry: ${e.reason}`,
  },
  "claim.adopted": { level: "info", message: (e) => `${e.name} was claimed and the reply lost; running it now` },
  "claim.forgotten": {
    level: "warn",
    message: (e) =>
      `${e.name} had ended, which the database has forgotten; it ${e.willRunAgain ? "runs again" : "has failed, and should be looked at"}`,
  },
  "database.lost": {
    level: "warn",
    message: (e) => `the database cannot be reached while ${e.doing}; trying again: ${reasonOf(e.error)}`,
  },
  "database.refused": {
    level: "error",
    message: (e) =>
      e.what === "us"
        ? `the database refused ${e.doing}: ${e.reason}; run \`everbeat doctor\``
        : `the database refused what it was given while ${e.doing}: ${e.reason}`,
  },
  "database.locked": {
    level: "warn",
    message: (e) => `another transaction has locked what is needed for ${e.doing}: ${e.reason}; trying again`,
  },
  // As loud as the loss: whoever was told of that waits for this.
  "database.back": { level: "warn", message: (e) => `the database is back (${e.doing})` },
  "heart.beating": {
    level: "debug",
    message: (e) => `the heart beats${e.hasSession ? "" : ", without a session of its own"}`,
  },
  "heart.lost": { level: "warn", message: (e) => `the heart lost its connection: ${e.message}` },
  "beat.refused": { level: "error", message: () => "this replica was declared dead; its work stops" },
  "replica.fenced": {
    level: "error",
    message: (e) => `this replica cannot prove its claims (${e.because}); work that others may repeat stops`,
  },
  "replica.rejoined": { level: "info", message: (e) => `back as ${e.replicaId}, before ${e.before}` },
  "replica.stale": {
    level: "warn",
    message: (e) => `replica ${e.replicaId} has been silent for ${Math.round(e.silentForMs)} ms`,
  },
  "replica.dead": { level: "warn", message: (e) => `replica ${e.replicaId} is dead (${e.because})` },
  "replica.examined": { level: "warn", message: (e) => `replica ${e.replicaId}: ${e.sentence}` },
  "post-mortem.failed": { level: "warn", message: (e) => `no post-mortem: ${e.doing} failed` },
  "task.recovered": { level: "warn", message: (e) => `${e.name} was recovered: ${e.action} (${e.because})` },
  "reaper.took-over": {
    level: "info",
    message: (e) => `sweeping in place of ${e.before}, which last did so ${Math.round(e.sweptAgoMs)} ms ago`,
  },
  "sweeps.stopped": {
    level: "error",
    message: (e) => `nobody has listened for silence for ${Math.round(e.sweptAgoMs)} ms; something holds up the sweeps`,
  },
  "recovery.resumed": { level: "info", message: (e) => `recovery is no longer held (${e.source})` },
  "task.stalled": {
    level: "warn",
    message: (e) =>
      `${e.name} has made no progress for ${Math.round(e.quietForMs)} ms${e.phase === null ? "" : ` in phase "${e.phase}"`}: ${e.action}`,
  },
  "loop.blocked": {
    level: "warn",
    message: (e) =>
      `the event loop${e.runnerId === undefined ? "" : ` of runner ${e.runnerId}`} was blocked for ${Math.round(e.blockedForMs)} ms`,
  },
  "recovery.held": {
    level: "error",
    message: (e) => `${e.dying} of ${e.groups} ${e.counted} fell silent at once; recovery is held (${e.source})`,
  },
  "runner.started": { level: "debug", message: (e) => `runner ${e.runnerId} started (${e.kind}, process ${e.pid})` },
  "runner.ended": {
    level: "info",
    message: (e) =>
      e.pid === 0
        ? `runner ${e.runnerId} (${e.kind}) could not be made: ${e.message}`
        : `runner ${e.runnerId} (${e.kind}, process ${e.pid}) ended: ${e.because}, ${e.signal ?? (e.exitCode === null ? e.message : `exit code ${e.exitCode}`)}`,
  },
  "runners.suspended": {
    level: "error",
    message: (e) => `no ${e.kind} could be started ${e.failures} times; their tasks are left to others: ${e.message}`,
  },
  "runners.resumed": { level: "info", message: (e) => `runners can be started again (${e.kind})` },
  "sweep.passed-by": { level: "error", message: (e) => `passed by in a sweep: ${e.what} failed` },
  "upkeep.passed-by": { level: "error", message: (e) => `passed by in upkeep: ${e.what} failed` },
  "claim.passed-by": { level: "error", message: (e) => `set aside: ${e.what} could not be claimed: ${e.reason}` },
  "queue.locked": {
    level: "error",
    message: (e) =>
      `another transaction keeps the row of queue ${JSON.stringify(e.queue)} locked: its tasks are passed by`,
  },
  "claims.failing": {
    level: "error",
    message: (e) => `every claim from queue ${JSON.stringify(e.queue)} fails; its tasks wait: ${e.reason}`,
  },
  "log.dropped": { level: "error", message: (e) => `log lines are being dropped: ${e.reason}` },
  // As loud as the loss: whoever looks at the log should know that it has a gap.
  "log.back": { level: "error", message: (e) => `log lines are written again; ${e.dropped} were dropped` },
  // Told in every process that listens, and most were told by a line of their own where they were met.
  "alert.raised": { level: "debug", message: (e) => `alert ${e.kind} was raised: ${e.message}` },
  "alert.resolved": { level: "debug", message: (e) => `alert ${e.kind} is over: ${e.subject}` },
  "alert.not-delivered": {
    level: "warn",
    message: (e) =>
      `alert ${e.alertId} (${e.change}) was not taken by channel ${JSON.stringify(e.channel)} at try ${e.tries}: ${e.reason}`,
  },
  "upkeep.done": {
    level: "debug",
    message: (e) => `upkeep: ${e.expired} expired, ${e.cancelled} cancelled, ${e.purged} purged`,
  },
};

const SUPERVISOR_LINES: Lines<keyof SupervisorEvents> = {
  "child.started": { level: "info", message: (e) => `child ${e.child} started as process ${e.pid}` },
  "child.ready": { level: "info", message: (e) => `child ${e.child} is ready: process ${e.pid} is this replica` },
  "child.leaving": {
    level: "info",
    message: (e) => `child ${e.child}, process ${e.pid}, is asked to leave${e.now ? " at once" : ""}`,
  },
  "child.still": {
    level: "error",
    message: (e) =>
      `child ${e.child}, process ${e.pid}, stands still and does not answer; it is killed, and another is started`,
  },
  "child.exited": {
    level: "info",
    message: (e) =>
      `child ${e.child}, process ${e.pid}, ${e.signal ? `was ended by ${e.signal}` : `exited with code ${e.exitCode}`}${e.wasAsked ? "" : ", unasked"}`,
  },
  "child.restarting": { level: "warn", message: (e) => `child ${e.child} starts again in ${Math.round(e.pauseMs)} ms` },
  "child.looping": {
    level: "error",
    message: (e) =>
      `child ${e.child} is in a crash loop, having ended ${e.exitsInARow} times in a row, and is not started again; SIGHUP tries anew`,
  },
  "roll.begun": { level: "info", message: (e) => `replacing children one at a time: ${e.children.join(", ")}` },
  "roll.done": { level: "info", message: (e) => `replaced all of ${e.children.length} children` },
  "roll.stopped": {
    level: "error",
    message: (e) => `the new child ${e.child} did not become ready; the children that were not replaced yet go on`,
  },
};

const LINES: Lines<AnyEventName> = { ...EVERBEAT_LINES, ...SUPERVISOR_LINES };

/** In one line: the message lists each address that was tried in a line of its own. */
function reasonOf(error: unknown): string {
  return inOneLine(toErrorRecord(error)).replace(/\s*\n\s*/g, " ");
}

/** All that can be subscribed to: the compiler sees to it that each has its line. */
export const EVENT_NAMES = Object.keys(EVERBEAT_LINES) as EventName[];

/** Those of a supervisor are in its log only. */
export function isSupervisorEvent(name: string): boolean {
  return Object.hasOwn(SUPERVISOR_LINES, name);
}

export function logEvents(events: Events, logger: Logger): () => void {
  const wants = (name: AnyEventName) => logger.isLevelEnabled?.(LINES[name].level) !== false;
  return events.onAny((name, event) => {
    const line = LINES[name] as Line<typeof name>;
    const fields: Record<string, unknown> = { event: name, ...event };
    const fallbackCode = name.startsWith("task.") ? undefined : "ERROR";
    if ("error" in fields && fields["error"] !== undefined)
      fields["error"] = toErrorRecord(fields["error"], fallbackCode);
    const message = line.message(event as never);
    // The line says it already.
    if (typeof fields["message"] === "string" && message.includes(fields["message"])) delete fields["message"];
    logger[line.level](fields, message);
  }, wants);
}

/** Ends of tasks are one event, however they ended. */
export function unknownEvent(name: string): string {
  const isEnd = /^task\.(fail|complet|succe|finish|crash|cancel|done|error|expire)/.test(name);
  if (isSupervisorEvent(name)) {
    return "happens in the process of a supervisor (everbeat start --processes), which writes it to its log; nobody can subscribe to it";
  }
  if (!isEnd) return unknownKey(name, EVENT_NAMES, "event");
  return 'there is no such event; "task.ended" tells of every end, and its `outcome` says how';
}
