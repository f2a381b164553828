/** Stale tasks as a table: whose they are, and how long nothing was heard of that owner. */
import { formatDuration } from "../config/duration.ts";
import type { ReplicaId, StaleTask } from "../index.ts";
import type { Screen } from "./screen.ts";
import { inColourOf, marked } from "./states.ts";
import { type Column, table } from "./table.ts";
import { queueColumn, taskColumns } from "./task-columns.ts";

export function staleTable(
  tasks: readonly StaleTask[],
  screen: Screen,
  unheard: ReadonlySet<ReplicaId>,
  outcome: readonly Column<StaleTask>[] = [],
): string[] {
  const { colours, width } = screen;
  const statusOf = ({ owner, ownerStatus }: StaleTask) => (unheard.has(owner) ? "unheard" : ownerStatus);
  const columns: Column<StaleTask>[] = [
    ...taskColumns<StaleTask>(colours),
    ...outcome,
    queueColumn(),
    { title: "OWNER", value: (task) => task.owner },
    {
      title: "STATUS",
      label: "",
      value: (task) => marked(statusOf(task)),
      style: (text, task) => inColourOf(statusOf(task), text, colours),
    },
    { title: "HOST", value: (task) => task.hostname ?? "unknown" },
    { title: "SILENCE", value: silenceOf, align: "right" },
  ];
  return table(tasks, columns, { colours, width });
}

function silenceOf({ silentForMs }: StaleTask): string {
  return silentForMs === null ? "for ever" : formatDuration(silentForMs);
}
