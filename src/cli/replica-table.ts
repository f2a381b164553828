/** Replicas as a table, with what each holds. */
import type { ReplicaRow } from "../sql/replicas.ts";
import type { Screen } from "./screen.ts";
import { inColourOf, marked } from "./states.ts";
import { table } from "./table.ts";
import { age, fromNow } from "./times.ts";

export function replicaTable(replicas: readonly ReplicaRow[], now: Date, { colours, width }: Screen): string {
  return table<ReplicaRow>(
    replicas,
    [
      { title: "REPLICA", value: (row) => row.id },
      {
        title: "STATUS",
        value: (row) => marked(row.status),
        style: (text, row) => inColourOf(row.status, text, colours),
      },
      { title: "CLAIMED", value: (row) => String(row.claimed), align: "right" },
      { title: "RUNNING", value: (row) => String(row.running), align: "right" },
      { title: "HEARD", value: (row) => fromNow(row.seenAt, now) },
      { title: "AGE", value: (row) => age(row.startedAt, now) },
      { title: "HOST", value: (row) => row.hostname },
      { title: "PROCESS", value: (row) => String(row.pid), align: "right" },
      { title: "VERSION", value: (row) => row.version },
      { title: "QUEUES", value: (row) => row.queues?.join(", ") ?? "all" },
      { title: "TASKS", value: (row) => row.tasks.join(", "), style: (text) => colours.dim(text) },
    ],
    { colours, width, indent: 2 },
  );
}
