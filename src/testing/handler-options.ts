/** The options of a handler's run, checked. */
import {
  anything,
  type Check,
  type Checked,
  checkOptions,
  describe,
  isAbortSignal,
  isBoolean,
  isDuration,
  isInstant,
  isInteger,
  isOptions,
  isText,
} from "../config/checks.ts";
import type { Duration } from "../config/duration.ts";
import { Problems } from "../config/problems.ts";
import { checkTask } from "../task/check-task.ts";
import type { Middleware } from "../task/context.ts";
import type { AnyTask } from "../task/define-task.ts";
import { problemLine, toJson } from "../task/json.ts";
import { isName, PRIORITY_RANGE } from "../task/settings.ts";

export interface HandlerOptions {
  /** The task's id (default: a new one). */
  id?: string;
  /** 1, the default, for the first try. */
  attempt?: number;
  /** How many attempts have failed so far (default: all before this one). */
  failures?: number;
  queue?: string;
  priority?: number;
  enqueuedAt?: Date | string;
  metadata?: unknown;
  /** Fires the handler's own signal, as a cancellation or a shutdown would. */
  signal?: AbortSignal;
  /** The fencing token, and whether the claim is lost: then `guard` and `completeIn` refuse. */
  claim?: { id?: string; isLost?: boolean };
  /** Around the handler, outermost first. */
  middleware?: readonly Middleware[];
  /** How long the handler may take to stop once its signal has fired (default 1 s). */
  abortGrace?: Duration;
}

const isClaim = isOptions({ id: isText({ max: 19, pattern: /^\d+$/, hint: "a number as text" }), isLost: isBoolean });

const SHAPE = {
  id: isText({ max: 36 }),
  attempt: isInteger({ min: 1, max: 32_767 }),
  failures: isInteger({ min: 0, max: 32_767 }),
  queue: isName,
  priority: isInteger(PRIORITY_RANGE),
  enqueuedAt: isInstant,
  metadata: anything,
  signal: isAbortSignal,
  claim: isClaim,
  middleware: anything as Check<readonly Middleware[]>,
  abortGrace: isDuration({ minMs: 0, maxMs: 86_400_000 }),
};

export type HandlerSettings = Checked<typeof SHAPE>;

/** One input for one call of the handler, or several for a batch task's. */
export type HandlerKind = "one" | "batch";

/** What could not have been enqueued is the test's mistake and no outcome of the handler. */
export function checkHandler(
  task: AnyTask,
  { kind, inputs, options }: { kind: HandlerKind; inputs: readonly unknown[]; options: unknown },
): HandlerSettings {
  const problems = new Problems();
  checkKind(task, kind, problems);
  const given = checkOptions(options, SHAPE, { path: "options", problems });
  if (!Array.isArray(inputs) || inputs.length === 0)
    problems.add("inputs", `must be a list of one input or more, not ${describe(inputs)}`);
  else
    for (const [index, input] of inputs.entries()) {
      const json = toJson(input);
      if (!json.ok) problems.add(kind === "one" ? "input" : `inputs[${index}]`, problemLine(json));
    }
  const metadata = toJson(given.metadata);
  if (!metadata.ok) problems.add("options.metadata", problemLine(metadata));
  problems.throwIfAny(kind === "one" ? "runHandler" : "runBatchHandler");
  return given;
}

function checkKind(task: AnyTask, kind: HandlerKind, problems: Problems): void {
  checkTask(task, problems);
  if (typeof task?.runBatch !== "function") return;
  const isBatchTask = task.runOne === undefined;
  if (isBatchTask && kind === "one")
    problems.add("", `task "${task.name}" takes batches: use runBatchHandler, with a list of inputs`);
  if (!isBatchTask && kind === "batch")
    problems.add("", `task "${task.name}" takes one input at a time: use runHandler`);
}
