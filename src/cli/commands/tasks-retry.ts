/** `everbeat tasks retry`: failed tasks once more, waiting ones at once, and with force those that somebody holds. */
import type { Command } from "commander";
import type { RetryOutcome } from "../../index.ts";
import { asking } from "../asking.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import type { ExitCode } from "../exit-codes.ts";
import { interruptible } from "../interruptible.ts";
import { addTaskFilters, type TaskFilters } from "../task-filters.ts";
import { answerOrder, assertChoice, chosenTasks, type OutcomeWords } from "../task-orders.ts";

interface RetryOptions extends TaskFilters {
  readonly force?: boolean;
}

const WORDS: OutcomeWords<RetryOutcome> = {
  meaning: {
    pending: "it had failed: it starts over, with its attempts as new",
    due: "it was waiting: it is due now",
    taken: "it was taken from its worker, whose writes are refused from now on",
    held: "a worker holds it; add --force to take it away",
    ended: "it completed, was cancelled or has expired: left as it is",
    unrecorded: 'it has failed, and its record in the table "task" is missing: put that back, then retry it again',
    unknown: "there is no such task",
  },
  failures: ["held", "ended", "unrecorded", "unknown"],
};

export function addTasksRetry(cli: Cli, parent: Command): void {
  addCommand<RetryOptions>(cli, parent, {
    usage: "retry [ids...]",
    description: "run tasks again, by their ids or by filters",
    examples: [
      "everbeat tasks retry 0198c6f0-5a5e-7c3e-9d55-0b7f3c1f2a11",
      "everbeat tasks retry --state failed --error-code ETIMEDOUT --since 1d",
      "everbeat tasks retry --state running --replica 5b0f3c1e-… --force    take back what a lost worker holds",
    ],
    configure(command) {
      addTaskFilters(command);
      command.option("--force", "also take tasks away from the worker that holds them");
    },
    run: retryTasks,
  });
}

async function retryTasks(call: Call<RetryOptions>): Promise<ExitCode> {
  const force = call.options.force === true;
  assertChoice(call, force ? "retry by force" : "retry");
  return interruptible(call, (context) =>
    asking(call, async (asked) => {
      const chosen = await chosenTasks(call, asked);
      return answerOrder(call, await asked.ask("tasks.retry", { ...chosen, force }, context), WORDS);
    }),
  );
}
