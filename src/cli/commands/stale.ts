/** `everbeat stale`: tasks whose owner is not alive, or has not been heard for too long. */
import { type Command, Option } from "commander";
import type { StaleTask } from "../../index.ts";
import { asking } from "../asking.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import { notYetStaleWords } from "../silent-owners.ts";
import { addStaleFilters, hasStaleFilters, type StaleFilters, toStaleQuery } from "../stale-filters.ts";
import { staleTable } from "../stale-table.ts";
import { typedCommand } from "../typed-command.ts";
import { howToBeSure, howToRecoverUnheard, readUnheard, unsureWords } from "../unheard.ts";
import { type Paint, prose } from "../wrap.ts";

interface StaleOptions extends StaleFilters {
  readonly state?: StaleTask["state"];
}

export function addStale(cli: Cli, program: Command): void {
  addCommand<StaleOptions>(cli, program, {
    usage: "stale",
    description: "find tasks whose worker is dead, gone or silent",
    group: "Look and act:",
    examples: [
      "everbeat stale",
      "everbeat stale --state running --after 5m",
      "everbeat stale --replica 5b0f3c1e-7a52-4c1b-9d7a-2f0a4f0f6b11 --json",
    ],
    configure(command) {
      addStaleFilters(command);
      command.addOption(new Option("--state <state>", "only tasks in this state").choices(["claimed", "running"]));
    },
    run: showStale,
  });
}

async function showStale(call: Call<StaleOptions>): Promise<undefined> {
  const { options, screen } = call;
  await asking(call, async (asked) => {
    const answer = await asked.ask("recovery.stale", { ...toStaleQuery(options), state: options.state });
    const unheard = await readUnheard(asked, options.replica);
    screen.answer(answer, () => {
      const { tasks } = answer;
      const { width, colours } = screen;
      const say = (text: string, paint: Paint = String) => prose(text, { width, paint });
      const unsure = unsureWords(answer.unsure, unheard.now);
      const list = tasks.length === 0 ? [] : [...staleTable(tasks, screen, unheard.replicas), ""];
      const byHand = `By hand: ${typedCommand("recover --dry-run", options)}`;
      if (unsure !== undefined)
        return [
          ...list,
          ...say(unsure, colours.yellow),
          ...say(howToBeSure(options), colours.dim),
          ...say(tasks.length === 0 ? howToRecoverUnheard(options) : byHand, colours.dim),
        ];
      if (tasks.length === 0) {
        const silent = notYetStaleWords(unheard.all, options.after);
        return say(
          silent
            ? `No task is stale yet. ${silent}`
            : hasStaleFilters(options) || options.state !== undefined
              ? "No stale task fits these filters."
              : "No task is stale: whoever holds one is alive and heard.",
        );
      }
      const bySelf = "Workers recover these by themselves, unless that is switched off.";
      return [...list, ...[bySelf, byHand].map((line) => colours.dim(line))];
    });
  });
  return undefined;
}
