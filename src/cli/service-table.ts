/** What runs once in the cluster, as a table. */
import { formatDuration } from "../config/duration.ts";
import type { ValueOf } from "../operations/operations.ts";
import { turnRemark } from "../services/turn-remark.ts";
import type { Screen } from "./screen.ts";
import { type Column, NOTHING, table } from "./table.ts";
import { fromNow } from "./times.ts";

type ServiceRow = ValueOf<"status">["services"][number];

export function serviceTable(services: readonly ServiceRow[], now: Date, { colours, width }: Screen): string[] {
  const columns: Column<ServiceRow>[] = [
    { title: "SERVICE", value: ({ service }) => service, style: (text) => colours.bold(text) },
    { title: "EVERY", value: ({ everyMs }) => formatDuration(everyMs), align: "right" },
    { title: "LAST", value: (row) => (row.isRunning ? "under way" : fromNow(row.takenAt, now)), align: "right" },
    { title: "TOOK", value: ({ tookMs }) => (tookMs === null ? NOTHING : formatDuration(tookMs)), align: "right" },
    { title: "ON", value: ({ takenOn }) => takenOn, atLeast: 8 },
    {
      title: "REMARK",
      label: "",
      value: (row) => turnRemark(row) ?? "",
      style: (text) => colours.yellow(text),
      isOptional: true,
    },
  ];
  return table(services, columns, { colours, width, indent: 2 });
}
