/** `everbeat tasks cancel`: tasks that should not run, or not go on running. */
import type { Command } from "commander";
import type { CancelOutcome } from "../../index.ts";
import { isCancelGrace } from "../../queue/task-orders.ts";
import { duration } from "../arguments.ts";
import { asking } from "../asking.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import type { ExitCode } from "../exit-codes.ts";
import { interruptible } from "../interruptible.ts";
import { addTaskFilters, type TaskFilters } from "../task-filters.ts";
import { answerOrder, assertChoice, chosenTasks, type OutcomeWords } from "../task-orders.ts";

interface CancelOptions extends TaskFilters {
  readonly reason?: string;
  readonly grace?: number;
}

const WORDS: OutcomeWords<CancelOutcome> = {
  meaning: {
    cancelled: "it will not run",
    cancelling: "it is running: its signal fires, and it is ended after the grace",
    ended: "it had ended before",
    unknown: "there is no such task",
  },
  // A task that has ended will not run, which is what was wanted.
  failures: ["unknown"],
};

export function addTasksCancel(cli: Cli, parent: Command): void {
  addCommand<CancelOptions>(cli, parent, {
    usage: "cancel [ids...]",
    description: "cancel tasks, by their ids or by filters",
    examples: [
      "everbeat tasks cancel 0198c6f0-5a5e-7c3e-9d55-0b7f3c1f2a11",
      'everbeat tasks cancel --queue mail --state pending --reason "the campaign was called off"',
    ],
    configure(command) {
      addTaskFilters(command);
      command
        .option("--reason <text>", "kept with the task")
        .option(
          "--grace <duration>",
          "how long a running one may take to stop (default: 10s)",
          duration(isCancelGrace),
        );
    },
    run: cancelTasks,
  });
}

async function cancelTasks(call: Call<CancelOptions>): Promise<ExitCode> {
  assertChoice(call, "cancel");
  const { reason, grace } = call.options;
  return interruptible(call, (context) =>
    asking(call, async (asked) => {
      const chosen = await chosenTasks(call, asked);
      return answerOrder(call, await asked.ask("tasks.cancel", { ...chosen, reason, grace }, context), WORDS);
    }),
  );
}
