/** `everbeat tasks quarantined`: tasks that are not tried again because they kill what runs them. */
import type { Command } from "commander";
import type { QuarantinedTask } from "../../index.ts";
import { isName } from "../../task/settings.ts";
import { checkedBy, wholeNumber } from "../arguments.ts";
import { type Asking, asking } from "../asking.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import { UsageError } from "../errors.ts";
import { EXIT, type ExitCode } from "../exit-codes.ts";
import type { Screen } from "../screen.ts";
import { type Column, table } from "../table.ts";
import { queueColumn, taskNameColumn } from "../task-columns.ts";
import { assertListed, limitReached, redrive } from "../task-orders.ts";
import { fromNow } from "../times.ts";
import { prose } from "../wrap.ts";

interface QuarantinedOptions {
  readonly name?: string;
  readonly queue?: string;
  readonly limit: number;
  readonly all?: boolean;
  readonly redrive?: boolean;
}

export function addTasksQuarantined(cli: Cli, parent: Command): void {
  addCommand<QuarantinedOptions>(cli, parent, {
    usage: "quarantined [ids...]",
    description: "list tasks that are not tried again because they kill their workers or runners, or run them again",
    examples: [
      "everbeat tasks quarantined",
      "everbeat tasks quarantined --name resize --redrive     the cause is mended: run them again, with a new budget",
    ],
    configure(command) {
      command
        .optionsGroup("Filters:")
        .option("--name <name>", "tasks of this name", checkedBy(isName))
        .option("--queue <queue>", "tasks of this queue", checkedBy(isName))
        .option("--limit <number>", "how many at most, 1 to 1000", wholeNumber({ min: 1, max: 1_000 }), 100)
        .optionsGroup("Options:")
        .option("--all", "with --redrive: every one that is in quarantine")
        .option("--redrive", "run them again, with their budgets as new");
    },
    run: quarantined,
  });
}

async function quarantined(call: Call<QuarantinedOptions>): Promise<ExitCode> {
  const { options, words } = call;
  if (options.all && !options.redrive) throw new UsageError("--all needs --redrive.");
  if (options.redrive) assertListed(words, options);
  return asking(call, async (asked) => {
    const { name, queue, limit } = options;
    const ids = words.length === 0 ? undefined : words;
    const { tasks } = await asked.ask("quarantine.list", { name, queue, ids, limit });
    if (options.redrive) await runAgain(call, asked, tasks);
    else await show(call, asked, tasks);
    return words.some((id) => !tasks.some((task) => task.id === id.toLowerCase())) ? EXIT.failed : EXIT.ok;
  });
}

async function show(
  { screen, words, options }: Call<QuarantinedOptions>,
  asked: Asking,
  tasks: readonly QuarantinedTask[],
): Promise<void> {
  const now = await asked.now();
  screen.answer({ tasks }, () => {
    if (tasks.length === 0) return noneWords(words, options);
    const hint =
      "Each was running when several workers or runners died. When you have found out why: --redrive runs it again.";
    const { width, colours } = screen;
    return [...quarantineTable(tasks, now, screen), "", ...prose(hint, { width, paint: colours.yellow })];
  });
}

async function runAgain(
  { screen, words, options }: Call<QuarantinedOptions>,
  asked: Asking,
  tasks: readonly QuarantinedTask[],
): Promise<void> {
  const redriven = await redrive(
    asked,
    tasks.map((task) => task.id),
  );
  screen.answer({ redriven }, () => {
    if (redriven.length === 0) return `${noneWords(words, options)} Nothing was done.`;
    const lines = redriven.map((id) => `${screen.colours.green("✓")} ${id}`);
    return [...lines, "", `${redriven.length} run again`, ...limitReached(tasks.length, options.limit)];
  });
}

function noneWords(words: readonly string[], { name, queue }: QuarantinedOptions): string {
  if (words.length > 0) return "None of these is in quarantine.";
  return name === undefined && queue === undefined
    ? "No task is in quarantine."
    : "No task in quarantine fits these filters.";
}

function quarantineTable(tasks: readonly QuarantinedTask[], now: Date, { colours, width }: Screen): string[] {
  const columns: Column<QuarantinedTask>[] = [
    { title: "ID", value: (task) => task.id },
    taskNameColumn(colours),
    queueColumn(),
    { title: "CRASHES", value: (task) => String(task.crashes), align: "right" },
    { title: "SINCE", label: "entered", value: (task) => fromNow(task.endedAt, now) },
    {
      title: "LAST POST-MORTEM",
      label: "",
      atLeast: 30,
      value: (task) => task.sentence ?? task.error.message,
      style: (text) => colours.dim(text),
    },
  ];
  return table(tasks, columns, { colours, width });
}
