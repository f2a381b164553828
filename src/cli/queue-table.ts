/** Queues as a table. */
import { formatDuration } from "../config/duration.ts";
import { rateWords } from "../config/rate-words.ts";
import type { QueueRow } from "../index.ts";
import type { Screen } from "./screen.ts";
import { inColourOf, marked } from "./states.ts";
import { type Column, NOTHING, table } from "./table.ts";

export function queueTable(queues: readonly QueueRow[], screen: Screen, indent = 0): string[] {
  const { colours, width } = screen;
  const count = (title: string, value: (queue: QueueRow) => number): Column<QueueRow> => ({
    title,
    value: (queue) => String(value(queue)),
    style: (text, queue) => (value(queue) === 0 ? colours.dim(text) : text),
    align: "right",
  });
  const stateOf = (queue: QueueRow) => (queue.isPaused ? "paused" : "open");
  const columns: Column<QueueRow>[] = [
    { title: "QUEUE", value: (queue) => queue.name, style: (text) => colours.bold(text) },
    {
      title: "STATE",
      value: (queue) => marked(stateOf(queue)),
      style: (text, queue) => inColourOf(stateOf(queue), text, colours),
    },
    count("READY", (queue) => queue.ready),
    count("DELAYED", (queue) => queue.delayed),
    count("PARKED", (queue) => queue.parked),
    count("CLAIMED", (queue) => queue.claimed),
    count("RUNNING", (queue) => queue.running),
    { title: "OLDEST DUE", value: oldestDue, align: "right" },
    { title: "LIMITS", label: "", value: limitsOf, style: (text) => colours.dim(text), isOptional: true },
  ];
  return table(queues, columns, { colours, width, indent });
}

export function limitsOf({ concurrency, rateLimit, trouble }: QueueRow): string {
  const limits: string[] = trouble === null ? [] : [`paused: ${trouble}`];
  if (concurrency !== null) limits.push(`${concurrency} at once`);
  if (rateLimit !== null) limits.push(rateWords(rateLimit));
  return limits.join(", ");
}

function oldestDue({ oldestDueMs }: QueueRow): string {
  return oldestDueMs === null ? NOTHING : formatDuration(Math.max(0, oldestDueMs));
}
