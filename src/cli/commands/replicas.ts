/** `everbeat replicas`: the worker processes, and how their hearts are doing. */
import type { Command } from "commander";
import { asking } from "../asking.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import { hereFirst, replicaTable } from "../replica-table.ts";
import { START_WORDS, typedCommand } from "../typed-command.ts";

interface ReplicasOptions {
  readonly all?: boolean;
}

export function addReplicas(cli: Cli, program: Command): void {
  addCommand<ReplicasOptions>(cli, program, {
    usage: "replicas",
    description: "the worker processes: what they hold, how their hearts are doing",
    group: "Look and act:",
    examples: ["everbeat replicas", "everbeat replicas --all", "everbeat replicas --json | jq '.replicas[].vitals'"],
    configure: (command) => command.option("--all", "also those that have left and hold nothing"),
    run: showReplicas,
  });
}

async function showReplicas(call: Call<ReplicasOptions>): Promise<undefined> {
  const { options, screen } = call;
  await asking(call, async ({ ask }) => {
    const answer = await ask("replicas.list", { all: options.all });
    const { settings } = await ask("recovery.state", {});
    const { machines } = await ask("machines.list", {});
    const reliability = new Map(machines.map((machine) => [machine.id, machine.reliability]));
    screen.answer(answer, () => {
      const { now, replicas } = answer;
      if (replicas.length === 0) return `No replica is here. Start one: ${typedCommand(START_WORDS, options)}`;
      return replicaTable(hereFirst(replicas), { now, settings, withVitals: true, indent: 0, reliability }, screen);
    });
  });
  return undefined;
}
