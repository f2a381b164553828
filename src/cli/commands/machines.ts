/** `everbeat machines`: the hosts that replicas run on. */
import type { Command } from "commander";
import { readClock } from "../../sql/clock.ts";
import type { MachineRow } from "../../sql/stale-tasks.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import { withEverbeat } from "../open-for-command.ts";
import { inColourOf, marked } from "../states.ts";
import { type Column, table } from "../table.ts";
import { fromNow } from "../times.ts";

export function addMachines(cli: Cli, program: Command): void {
  addCommand(cli, program, {
    usage: "machines",
    description: "the hosts that replicas run on; one is online while any of its replicas is",
    group: "Look and act:",
    examples: ["everbeat machines", "everbeat machines --json"],
    run: showMachines,
  });
}

async function showMachines(call: Call): Promise<undefined> {
  const { colours, width } = call.screen;
  await withEverbeat(call, async (everbeat) => {
    const machines = await everbeat.recovery.machines();
    const now = await readClock(everbeat.database);
    const presence = ({ isOnline }: MachineRow) => (isOnline ? "online" : "offline");
    const columns: Column<MachineRow>[] = [
      { title: "HOST", value: (row) => row.hostname, style: (text) => colours.bold(text) },
      {
        title: "STATUS",
        value: (row) => marked(presence(row)),
        style: (text, row) => inColourOf(presence(row), text, colours),
      },
      { title: "REPLICAS", value: (row) => `${row.online} of ${row.replicas}`, align: "right" },
      { title: "TASKS", value: (row) => String(row.running), align: "right" },
      { title: "SEEN", value: (row) => fromNow(row.lastSeenAt, now) },
      { title: "MACHINE", value: (row) => row.id, style: (text) => colours.dim(text) },
    ];
    call.screen.answer({ now, machines }, () =>
      machines.length === 0
        ? "No machine is on record: no worker has run yet."
        : table(machines, columns, { colours, width }),
    );
  });
  return undefined;
}
