/** The options of a handler's run, checked. */
import {
  anything,
  type Check,
  type Checked,
  checkOptions,
  isBoolean,
  isDuration,
  isInstant,
  isInteger,
  isOptions,
  isText,
} from "../config/checks.ts";
import type { Duration } from "../config/duration.ts";
import { Problems } from "../config/problems.ts";
import type { Middleware } from "../task/context.ts";
import { toJson } from "../task/json.ts";
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
  signal: anything as Check<AbortSignal>,
  claim: isClaim,
  middleware: anything as Check<readonly Middleware[]>,
  abortGrace: isDuration({ minMs: 0, maxMs: 86_400_000 }),
};

export type HandlerSettings = Checked<typeof SHAPE>;

/** What could not have been enqueued is the test's mistake and no outcome of the handler. */
export function checkHandler(name: string, inputs: readonly unknown[], options: unknown): HandlerSettings {
  const problems = new Problems();
  const given = checkOptions(options, SHAPE, { path: "options", problems });
  for (const [index, input] of inputs.entries()) {
    const json = toJson(input);
    if (!json.ok) problems.add(inputs.length === 1 ? "input" : `inputs[${index}]`, json.problem);
  }
  const metadata = toJson(given.metadata);
  if (!metadata.ok) problems.add("options.metadata", metadata.problem);
  problems.throwIfAny(`The run of task "${name}"`);
  return given;
}
