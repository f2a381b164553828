/** `everbeat tasks list`: a page of tasks, newest first. */
import type { Command } from "commander";
import type { TaskSummary } from "../../index.ts";
import { wholeNumber } from "../arguments.ts";
import { asking } from "../asking.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import { type Column, table } from "../table.ts";
import { queueColumn, taskColumns } from "../task-columns.ts";
import { addTaskFilters, hasFilters, type TaskFilters, toTaskQuery } from "../task-filters.ts";
import { remarkOn } from "../task-remarks.ts";
import { fromNow } from "../times.ts";
import { typedCommand } from "../typed-command.ts";

interface ListOptions extends TaskFilters {
  readonly limit: number;
  readonly before?: string;
}

export function addTasksList(cli: Cli, parent: Command): void {
  addCommand<ListOptions>(cli, parent, {
    usage: "list",
    description: "list tasks, newest first",
    examples: [
      "everbeat tasks list",
      "everbeat tasks list --state failed --since 1h",
      "everbeat tasks list --queue mail --limit 200 --json",
      "everbeat tasks list --before 0198c6f0-5a5e-7c3e-9d55-0b7f3c1f2a11",
    ],
    configure(command) {
      addTaskFilters(command);
      command
        .option("--limit <number>", "how many at most, 1 to 1000", wholeNumber({ min: 1, max: 1_000 }), 50)
        .option("--before <id>", "the next page: tasks older than this one");
    },
    run: listTasks,
  });
}

async function listTasks(call: Call<ListOptions>): Promise<undefined> {
  const { options, screen } = call;
  const { limit, before } = options;
  await asking(call, async (asked) => {
    const page = await asked.ask("tasks.list", { ...(await toTaskQuery(options, asked)), limit, before });
    const now = await asked.now();
    screen.answer(page, () =>
      page.tasks.length === 0 ? nothing(options) : [...taskTable(page.tasks, now, screen), ...more(page.next)],
    );
  });
  return undefined;
}

export function taskTable(tasks: readonly TaskSummary[], now: Date, screen: Call["screen"]): string[] {
  const { colours, width } = screen;
  const columns: Column<TaskSummary>[] = [
    ...taskColumns<TaskSummary>(colours),
    queueColumn(),
    { title: "ATTEMPT", value: (task) => String(task.attempt), align: "right" },
    { title: "ENQUEUED", value: (task) => fromNow(task.createdAt, now) },
    {
      ...{ title: "REMARK", label: "", value: (task) => remarkOn(task, now), atLeast: 30 },
      ...{ style: (text) => colours.dim(text), isOptional: true },
    },
  ];
  return table(tasks, columns, { colours, width });
}

function more(next: string | null): string[] {
  return next === null ? [] : ["", `There may be more: add --before ${next}`];
}

function nothing(options: Call<ListOptions>["options"]): string {
  if (hasFilters(options) || options.before !== undefined) return "No task fits these filters.";
  return `There are no tasks yet. Put one in: ${typedCommand(`enqueue NAME '{"some": "input"}'`, options)}`;
}
