/** `everbeat tasks quarantined`: tasks that are not tried again because they kill what runs them. */
import type { Command } from "commander";
import type { Everbeat } from "../../everbeat.ts";
import { readClock } from "../../sql/clock.ts";
import type { QuarantinedTask } from "../../sql/suspicion.ts";
import { isName } from "../../task/settings.ts";
import { checkedBy, wholeNumber } from "../arguments.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import { UsageError } from "../errors.ts";
import { EXIT, type ExitCode } from "../exit-codes.ts";
import { withEverbeat } from "../open-for-command.ts";
import type { Screen } from "../screen.ts";
import { type Column, table } from "../table.ts";
import { queueColumn, taskNameColumn } from "../task-columns.ts";
import { assertListed, limitReached } from "../task-orders.ts";
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
  return withEverbeat(call, async (everbeat) => {
    const { name, queue, limit } = options;
    const tasks = await everbeat.recovery.quarantine.list({
      ...(name === undefined ? {} : { name }),
      ...(queue === undefined ? {} : { queue }),
      ...(words.length === 0 ? {} : { ids: words }),
      limit,
    });
    if (options.redrive) await redrive(call, everbeat, tasks);
    else await show(call, everbeat, tasks);
    return words.some((id) => !tasks.some((task) => task.id === id.toLowerCase())) ? EXIT.failed : EXIT.ok;
  });
}

async function show(
  { screen, words }: Call<QuarantinedOptions>,
  everbeat: Everbeat,
  tasks: readonly QuarantinedTask[],
): Promise<void> {
  const now = await readClock(everbeat.database);
  screen.answer({ tasks }, () => {
    if (tasks.length === 0) return words.length > 0 ? "None of these is in quarantine." : "No task is in quarantine.";
    const hint =
      "Each was running when several workers or runners died. When you have found out why: --redrive runs it again.";
    const { width, colours } = screen;
    return [...quarantineTable(tasks, now, screen), "", ...prose(hint, { width, paint: colours.yellow })];
  });
}

async function redrive(
  { screen, options }: Call<QuarantinedOptions>,
  everbeat: Everbeat,
  tasks: readonly QuarantinedTask[],
): Promise<void> {
  const again = tasks.length === 0 ? [] : await everbeat.tasks.retry(tasks.map((task) => task.id));
  const redriven = again.filter((each) => each.outcome === "pending").map((each) => each.id);
  screen.answer({ redriven }, () => {
    if (redriven.length === 0) return "No task is in quarantine, so nothing was done.";
    const lines = redriven.map((id) => `${screen.colours.green("✓")} ${id}`);
    return [...lines, "", `${redriven.length} run again`, ...limitReached(tasks.length, options.limit)];
  });
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
