/** Runs a task's handler by itself, without a database: through its schema and a worker's own way of running it. */

import { openHandlerScopes } from "../runner/handler-scopes.ts";
import type { Transaction } from "../task/context.ts";
import type { Task } from "../task/define-task.ts";
import { newReplicaId } from "../task/ids.ts";
import { DEFAULT_JSON_LIMIT_BYTES } from "../task/json.ts";
import type { Execution } from "../worker/execution.ts";
import { type Ending, outcomeOf } from "../worker/outcome.ts";
import { runGroup } from "../worker/run-group.ts";
import type { RecordedCompletion } from "./fake-claim.ts";
import { createFakeExecution, type FakeExecution } from "./fake-execution.ts";
import { checkHandler, type HandlerKind, type HandlerOptions } from "./handler-options.ts";
import { type LogLine, recordingLogger } from "./recording-logger.ts";
import { type RecordedReports, recordingReports } from "./recording-reports.ts";

/** How the handler ended, and what it did on the way. */
export type HandlerRun<Output> = {
  readonly logs: readonly LogLine[];
  /** The transactions that the handler guarded by its claim. */
  readonly guarded: readonly Transaction[];
  /** Where the handler completed the task in a transaction of its own, and with what. */
  readonly completions: readonly RecordedCompletion<Output>[];
} & RecordedReports &
  HandlerEnding<Output>;

type HandlerEnding<Output> =
  | Ended<"returned", { readonly result: Output }>
  /** `willRunAgain`: a worker would run the task once more, going by its retry policy. */
  | Ended<"threw", { readonly error: unknown; readonly willRunAgain: boolean }>
  | Ended<"snoozed", { readonly delayMs: number }>
  /** The handler ignored its signal until the grace was over. */
  | Ended<"abandoned", unknown>;

/** What belongs to the other outcomes is undefined here, so that a test can look at `run.result` without narrowing first. */
type Ended<Outcome, Own> = { readonly outcome: Outcome } & Own & {
    readonly [K in Exclude<"result" | "error" | "willRunAgain" | "delayMs", keyof Own>]?: undefined;
  };

export async function runHandler<Input, Output>(
  task: Task<Input, Output>,
  input: Input,
  options?: HandlerOptions,
): Promise<HandlerRun<Output>> {
  const [run] = await runWith(task, { kind: "one", inputs: [input], options });
  return run as HandlerRun<Output>;
}

/** One call of a batch task's handler with these inputs, however many; one run for each, in the same order. */
export async function runBatchHandler<Input, Output>(
  task: Task<Input, Output>,
  inputs: readonly Input[],
  options?: HandlerOptions,
): Promise<readonly HandlerRun<Output>[]> {
  return runWith(task, { kind: "batch", inputs, options });
}

async function runWith<Input, Output>(
  task: Task<Input, Output>,
  call: { kind: HandlerKind; inputs: readonly Input[]; options: HandlerOptions | undefined },
): Promise<readonly HandlerRun<Output>[]> {
  const settings = checkHandler(task, call);
  const log = recordingLogger();
  const reporting = recordingReports();
  const scopes = openHandlerScopes();
  const parts = {
    schema: "",
    replica: { id: newReplicaId() },
    log,
    middleware: settings.middleware ?? [],
    resultLimitBytes: DEFAULT_JSON_LIMIT_BYTES,
    abortGraceMs: settings.abortGrace ?? 1_000,
    scopes,
    reporting,
    // Nobody but this thread's own timers.
    deadlines: { begin: () => ({ putOff() {}, over() {} }) },
  };
  const group = call.inputs.map((input, index) => createFakeExecution(task, { input, index, settings }, parts));
  const endings = new Map<Execution, Ending>();
  try {
    await new Promise<void>((onOver) => {
      const executions = group.map(({ execution }) => execution);
      runGroup(executions, {
        onEnding(execution, ending, isLast) {
          endings.set(execution, ending);
          if (isLast) onOver();
        },
      });
    });
  } finally {
    scopes.close();
  }
  return group.map((fake) => ({
    ...toRun<Output>(fake, endings.get(fake.execution), log.lines),
    ...reporting.reportsOf(fake.execution.claimed.claimId),
  }));
}

function toRun<Output>(
  { execution, claim }: FakeExecution,
  ending: Ending | undefined,
  lines: readonly LogLine[],
): Omit<HandlerRun<Output>, keyof RecordedReports> & HandlerEnding<Output> {
  const { claimed } = execution;
  const record = {
    logs: lines.filter((line) => line.fields["taskId"] === claimed.taskId),
    guarded: claim.guarded,
    completions: claim.completions as readonly RecordedCompletion<Output>[],
  };
  switch (ending?.kind) {
    case "returned":
      // What was completed in the handler's own transaction is on record, whatever it returns after that.
      return { outcome: "returned", result: resultOf<Output>(claim.completions[0], ending.resultJson), ...record };
    case "snoozed":
      return { outcome: "snoozed", delayMs: ending.delayMs, ...record };
    case "threw":
      return { outcome: "threw", error: ending.error, willRunAgain: willRunAgain(execution, ending), ...record };
    default:
      return { outcome: "abandoned", ...record };
  }
}

function willRunAgain(execution: Execution, ending: Ending & { kind: "threw" }): boolean {
  const { claimed, task, abortReason, completedInTransaction } = execution;
  const attempt = {
    ref: { claim: claimed.claimId, task: claimed.taskId, replica: newReplicaId() },
    failures: claimed.failures,
    ending,
    abortReason,
    completedInTransaction,
  };
  return outcomeOf(attempt, task.settings, 0)?.to === "pending";
}

function resultOf<Output>(completion: RecordedCompletion<unknown> | undefined, resultJson: string): Output {
  return JSON.parse(completion ? JSON.stringify(completion.result ?? null) : resultJson) as Output;
}
