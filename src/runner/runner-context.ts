/** What a handler is given in a runner: the same as inline, with the replica at the other end of it. */
import { clipGiven } from "../clip.ts";
import { type LogFields, showableFields } from "../log-fields.ts";
import type { TaskContext } from "../task/context.ts";
import { createHandlerLog, type HandlerLog } from "../task/handler-log.ts";
import { isTooDeep } from "../task/json.ts";
import { stringifyWithin } from "../task/json-measure.ts";
import { checkPhase, checkProgress } from "../task/progress.ts";
import { snooze } from "../task/snooze.ts";
import { createClaimHandle } from "./claim-handle.ts";
import type { LatestCall } from "./latest-call.ts";
import type { LogBudget } from "./log-budget.ts";
import type { RunItem, RunnerCharge } from "./protocol.ts";

export interface RunnerContextParts {
  readonly item: RunItem;
  readonly signal: AbortSignal;
  readonly charge: RunnerCharge;
  readonly budget: LogBudget;
  /** Makes the same call on the context that the replica has; nobody waits for it. */
  readonly call: (name: string, args: readonly unknown[]) => void;
  readonly progress: LatestCall;
  readonly phases: LatestCall;
  readonly onCompleting: () => void;
}

export function createRunnerContext({
  item,
  signal,
  charge,
  budget,
  call,
  progress,
  phases,
  onCompleting,
}: RunnerContextParts): TaskContext {
  const { task, claimId, replicaId } = item;
  return {
    signal,
    task: { ...task, enqueuedAt: new Date(task.enqueuedAt) },
    claim: createClaimHandle({
      claimId,
      taskId: task.id,
      name: task.name,
      replicaId,
      schema: charge.schema,
      resultLimitBytes: charge.resultLimitBytes,
      onCompletedInTransaction: onCompleting,
    }),
    log: createLog(budget, call),
    async phase(name, details) {
      const { phase, details: json } = checkPhase(name, details);
      const args = [phase, json === null ? undefined : JSON.parse(json)];
      // Each of them; but while the replica reads nothing, only the last.
      if (budget.hasRoom) phases.callNow(args);
      else phases.call(args);
    },
    progress(value, note) {
      const { share, done, total, note: text } = checkProgress(value, note);
      progress.call([done === null || total === null ? share : { done, total }, text ?? undefined]);
    },
    snooze,
  };
}

function createLog(budget: LogBudget, call: RunnerContextParts["call"]): HandlerLog {
  return createHandlerLog((level, fields, message) => {
    const { isGranted, dropped } = budget.take(performance.now());
    if (!isGranted) return;
    if (dropped > 0) call("log", droppedLine(dropped));
    call("log", [level, carriable(fields), clipGiven(message, MAX_TEXT)]);
  });
}

/** The line that tells of those that were too many. */
export function droppedLine(dropped: number): readonly unknown[] {
  return ["warn", { dropped }, "lines of this log were dropped: there were too many"];
}

const MAX_TEXT = 65_536;

/** As JSON holds them. */
function carriable(fields: LogFields): LogFields {
  try {
    const text = stringifyWithin(showableFields(fields), MAX_TEXT) ?? "{}";
    if (text.length <= MAX_TEXT && !isTooDeep(text)) return JSON.parse(text) as LogFields;
  } catch {
    // As with any other line whose fields cannot be shown.
  }
  return { note: "the fields of this line could not be carried over" };
}
