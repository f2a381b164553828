/** `everbeat machines`: the hosts that replicas run on. */
import type { Command } from "commander";
import { formatDuration } from "../../config/duration.ts";
import type { ValueOf } from "../../operations/operations.ts";
import { flappingWords } from "../../recovery/reliability.ts";
import { asking } from "../asking.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import { inColourOf, marked } from "../states.ts";
import { type Column, NOTHING, table } from "../table.ts";
import { fromNow, unheardWords } from "../times.ts";

export function addMachines(cli: Cli, program: Command): void {
  addCommand(cli, program, {
    usage: "machines",
    description: "the hosts that replicas run on: which are online, and how often their replicas died",
    group: "Look and act:",
    examples: ["everbeat machines", "everbeat machines --json"],
    run: showMachines,
  });
}

async function showMachines(call: Call): Promise<undefined> {
  const { colours, width } = call.screen;
  await asking(call, async ({ ask }) => {
    const answer = await ask("machines.list", {});
    const { now, machines } = answer;
    const columns: Column<ReliableMachine>[] = [
      { title: "HOST", value: (row) => row.hostname, style: (text) => colours.bold(text) },
      {
        title: "STATUS",
        value: (row) => marked(presenceOf(row)),
        style: (text, row) => inColourOf(presenceOf(row), text, colours),
      },
      { title: "REPLICAS", value: (row) => `${row.online} of ${row.replicas}`, align: "right" },
      { title: "TASKS", value: (row) => String(row.running), align: "right" },
      { title: "UP FOR", value: ({ reliability: is }) => durationOf(is?.upForMs), align: "right" },
      {
        title: "DEATHS",
        value: ({ reliability: is }) => String(is?.deaths ?? 0),
        align: "right",
        style: (text, { reliability: is }) => (is?.isFlapping ? colours.red(text) : text),
      },
      { title: "ONE EVERY", value: ({ reliability: is }) => durationOf(is?.meanMsBetweenDeaths), align: "right" },
      { title: "SILENCES", value: ({ reliability: is }) => String(is?.silences ?? 0), align: "right" },
      { title: "SEEN", value: (row) => fromNow(row.lastSeenAt, now) },
      {
        ...{ title: "REMARK", label: "", value: (row) => remarkOn(row, now), isOptional: true },
        style: (text) => colours.red(text),
      },
      { title: "MACHINE", value: (row) => row.id, style: (text) => colours.dim(text) },
    ];
    call.screen.answer(answer, () =>
      machines.length === 0
        ? "No machine is on record: no worker has run yet."
        : table(machines, columns, { colours, width }),
    );
  });
  return undefined;
}

type ReliableMachine = ValueOf<"machines.list">["machines"][number];

function durationOf(ms: number | undefined): string {
  return ms === undefined ? NOTHING : formatDuration(ms);
}

function presenceOf({ isOnline, unheardSince }: ReliableMachine): "online" | "offline" | "unheard" {
  if (unheardSince !== null) return "unheard";
  return isOnline ? "online" : "offline";
}

function remarkOn({ reliability, unheardSince }: ReliableMachine, now: Date): string {
  const remarks = unheardSince === null ? [] : [unheardWords(unheardSince, now)];
  if (reliability?.isFlapping) remarks.push(`flaps: ${flappingWords(reliability)}`);
  return remarks.join("; ");
}
