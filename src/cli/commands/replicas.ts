/** `everbeat replicas`: the worker processes, and how their hearts are doing. */
import type { Command } from "commander";
import { readClock } from "../../sql/clock.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import { withEverbeat } from "../open-for-command.ts";
import { heartStateOf } from "../replica-heart.ts";
import { runnersByReplica } from "../replica-runners.ts";
import { replicaTable } from "../replica-table.ts";

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
  await withEverbeat(call, async (everbeat) => {
    const settings = await everbeat.recovery.settings();
    const all = await everbeat.replicas();
    const shown = all.filter((row) => options.all || row.status !== "offline" || row.claimed + row.running > 0);
    const now = await readClock(everbeat.database);
    const runners = runnersByReplica(await everbeat.runners());
    const replicas = shown.map((row) => ({
      ...row,
      heart: heartStateOf(row, settings),
      runners: runners.get(row.id) ?? [],
    }));
    const reliability = new Map((await everbeat.recovery.reliability()).map((machine) => [machine.machineId, machine]));
    screen.answer({ now, replicas, replicasLeftOut: all.length - shown.length }, () => {
      if (shown.length === 0) return "No replica is here. Start one: everbeat start tasks.ts";
      return replicaTable(shown, { now, settings, withVitals: true, indent: 0, reliability, runners }, screen);
    });
  });
  return undefined;
}
