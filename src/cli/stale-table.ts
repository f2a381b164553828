/** Stale tasks as a table: whose they are, and how long nothing was heard of that owner. */
import { formatDuration } from "../config/duration.ts";
import type { StaleTask } from "../sql/stale-tasks.ts";
import type { Screen } from "./screen.ts";
import { inColourOf, marked } from "./states.ts";
import { type Column, table } from "./table.ts";

export function staleTable(
  tasks: readonly StaleTask[],
  screen: Screen,
  more: readonly Column<StaleTask>[] = [],
): string {
  const { colours, width } = screen;
  const columns: Column<StaleTask>[] = [
    { title: "ID", value: (task) => task.id },
    { title: "TASK", value: (task) => task.name, style: (text) => colours.bold(text) },
    { title: "QUEUE", value: (task) => task.queue },
    {
      title: "STATE",
      value: (task) => marked(task.state),
      style: (text, task) => inColourOf(task.state, text, colours),
    },
    { title: "OWNER", value: (task) => task.owner },
    {
      title: "STATUS",
      value: (task) => marked(task.ownerStatus),
      style: (text, task) => inColourOf(task.ownerStatus, text, colours),
    },
    { title: "HOST", value: (task) => task.hostname ?? "unknown" },
    { title: "SILENCE", value: silenceOf, align: "right" },
    ...more,
  ];
  return table(tasks, columns, { colours, width });
}

function silenceOf({ silentForMs }: StaleTask): string {
  return silentForMs === null ? "for ever" : formatDuration(silentForMs);
}
