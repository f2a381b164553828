/**
 * The runner's side: takes one job at a time (a task, or a batch of them), gives its handler the context that it would have
 * inline, and tells what came of it.
 */
import type { AnyTask, BatchItem } from "../task/define-task.ts";
import { requireOneForEach } from "../task/define-task.ts";
import { examinable } from "../task/error-record.ts";
import { InvalidInputError, ReplicaGoneError, ResultNotStorableError } from "../task/errors.ts";
import { parseInput } from "../task/input.ts";
import { toJson } from "../task/json.ts";
import { Snooze } from "../task/snooze.ts";
import { carryError } from "./carried-error.ts";
import type { HandlerScopes } from "./handler-scopes.ts";
import { LatestCall } from "./latest-call.ts";
import type { LeftProcesses } from "./left-processes.ts";
import { LogBudget } from "./log-budget.ts";
import type { CarriedOutcome, FromRunner, RunItem, RunnerCharge, ToRunner } from "./protocol.ts";
import { createRunnerContext, droppedLine } from "./runner-context.ts";

export interface ServeParts {
  readonly charge: RunnerCharge;
  readonly tasks: ReadonlyMap<string, AnyTask>;
  readonly scopes: HandlerScopes;
  readonly send: (message: FromRunner) => void;
  /** How many characters of what was sent the replica has not read yet. */
  readonly unread: () => number;
  readonly memory: () => number;
  /** Undefined where what handlers start is not this runner's to end. */
  readonly leftProcesses: Pick<LeftProcesses, "begin" | "areThere"> | undefined;
}

interface Job {
  readonly number: number;
  readonly task: AnyTask;
  readonly items: readonly RunItem[];
  readonly aborts: readonly AbortController[];
}

export class JobServer {
  readonly #parts: ServeParts;
  readonly #budget: LogBudget;
  #current: Job | undefined;
  /** Of the current job's items: what they have said last of themselves. */
  readonly #latest: LatestCall[] = [];
  #isTainted = false;

  constructor(parts: ServeParts) {
    this.#parts = parts;
    this.#budget = new LogBudget(parts.unread);
  }

  async run({ job: number, name, items }: ToRunner & { type: "run" }): Promise<void> {
    // Its name was looked for when the runner started.
    const task = this.#parts.tasks.get(name) as AnyTask;
    const job: Job = { number, task, items, aborts: items.map(() => new AbortController()) };
    this.#current = job;
    const { send, memory, leftProcesses } = this.#parts;
    leftProcesses?.begin();
    const outcomes = await this.#outcomes(job);
    for (const latest of this.#latest.splice(0)) latest.flush();
    this.#tellOfDropped(job);
    this.#current = undefined;
    // Another try may follow, or run somewhere else already, and nothing of this one must go on beside it.
    const hasEndedWell = outcomes.every(({ kind }) => kind === "returned") && !isToldToStop(job);
    const leavesProcesses = !hasEndedWell && leftProcesses?.areThere() === true;
    for (const [item, outcome] of outcomes.entries()) send({ type: "outcome", job: number, item, outcome });
    send({ type: "ended", job: number, memory: memory(), isTainted: this.#isTainted, leavesProcesses });
  }

  abort(job: number, item: number, reason: unknown): void {
    if (this.#current?.number === job) this.#current.aborts[item]?.abort(reason);
  }

  /** The replica is dead: whatever runs is told so, for the moment that is left to it. */
  abandon(): void {
    for (const [index, item] of this.#current?.items.entries() ?? []) {
      this.#current?.aborts[index]?.abort(new ReplicaGoneError(item.task.id));
    }
  }

  /** Before the job is over: the next line of this runner's log may be another task's, or never come. */
  #tellOfDropped({ number, items }: Job): void {
    const dropped = this.#budget.takeDropped();
    if (dropped === 0) return;
    this.#parts.send({ type: "call", job: number, item: items.length - 1, name: "log", args: droppedLine(dropped) });
  }

  async #outcomes(job: Job): Promise<CarriedOutcome[]> {
    const refusals = new Map<number, CarriedOutcome>();
    const present: BatchItem<never>[] = [];
    for (const [index, item] of job.items.entries()) {
      try {
        const parsed = await parseInput(job.task, item.input);
        if (!parsed.ok) throw new InvalidInputError(job.task.name, parsed.problems);
        present.push({ input: parsed.value as never, context: this.#contextOf(job, index) });
      } catch (error) {
        refusals.set(index, threw(job.task, error));
      }
    }
    const served = present.length > 0 ? await this.#serve(job, present) : [];
    return job.items.map((_, index) => refusals.get(index) ?? (served.shift() as CarriedOutcome));
  }

  async #serve(
    { number, task, items: [first], aborts }: Job,
    items: readonly BatchItem<never>[],
  ): Promise<CarriedOutcome[]> {
    try {
      const returned = await new Promise<readonly unknown[]>((resolve, reject) => {
        const onStray = (reason: unknown) => {
          // The rest of the handler may go on, and must not do so beside somebody else's.
          this.#isTainted = true;
          if (this.#current?.number !== number && first) this.#tellOfLateError(first, reason);
          reject(reason);
          for (const abort of aborts) abort.abort(examinable(reason));
        };
        const onOwnStop = () => this.#parts.send({ type: "own-stop", job: number });
        this.#parts.scopes.scope({ onStray, onOwnStop }, () => task.runBatch(items)).then(resolve, reject);
      });
      requireOneForEach(task, returned, items.length);
      return returned.map((value) => this.#outcomeOf(task, value));
    } catch (error) {
      return items.map(() => threw(task, error));
    }
  }

  #tellOfLateError({ task: { id: taskId, name, attempt }, claimId }: RunItem, error: unknown): void {
    this.#parts.send({ type: "late-error", task: { taskId, claimId, name, attempt }, error: carryError(error) });
  }

  #outcomeOf(task: AnyTask, value: unknown): CarriedOutcome {
    if (value instanceof Error) return threw(task, value);
    const json = toJson(value, this.#parts.charge.resultLimitBytes);
    if (json.ok) return { kind: "returned", resultJson: json.text };
    return threw(task, new ResultNotStorableError(task.name, json));
  }

  #contextOf({ number, items, aborts }: Job, index: number): BatchItem<never>["context"] {
    const { charge, send } = this.#parts;
    const call = (name: string, args: readonly unknown[]) =>
      send({ type: "call", job: number, item: index, name, args });
    const progress = new LatestCall((args) => call("progress", args));
    const phases = new LatestCall((args) => call("phase", args));
    this.#latest.push(phases, progress);
    return createRunnerContext({
      item: items[index] as RunItem,
      signal: (aborts[index] as AbortController).signal,
      charge,
      budget: this.#budget,
      ...{ call, progress, phases },
      onCompleting: () => send({ type: "completing", job: number, item: index }),
    });
  }
}

function isToldToStop({ aborts }: Job): boolean {
  return aborts.some(({ signal }) => signal.aborted);
}

function threw(task: AnyTask, thrown: unknown): CarriedOutcome {
  const error = examinable(thrown);
  if (error instanceof Snooze) return { kind: "snoozed", delayMs: error.delayMs };
  return { kind: "threw", error: carryError(error, task.settings.isWorthRetrying) };
}
