/** `everbeat explain`: why a task is where it is, and what will happen when. */
import type { Command } from "commander";
import type { Explanation } from "../../recovery/explain.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import { withEverbeat } from "../open-for-command.ts";
import type { Screen } from "../screen.ts";
import { inColourOf, marked } from "../states.ts";

export function addExplain(cli: Cli, program: Command): void {
  addCommand(cli, program, {
    usage: "explain <task>",
    description: "why a task is where it is, and what will happen when",
    group: "Look and act:",
    examples: [
      "everbeat explain 0198c6f0-5a5e-7c3e-9d55-0b7f3c1f2a11",
      "everbeat explain 0198c6f0-5a5e-7c3e-9d55-0b7f3c1f2a11 --json | jq -r .because",
    ],
    run: explainTask,
  });
}

async function explainTask(call: Call): Promise<undefined> {
  const [id = ""] = call.words;
  await withEverbeat(call, async ({ recovery }) => {
    const explanation = await recovery.explain(id);
    call.screen.answer(explanation, () => describeExplanation(explanation, call.screen));
  });
  return undefined;
}

function describeExplanation(told: Explanation, { colours }: Screen): string[] {
  const state = inColourOf(told.state, marked(told.state), colours);
  const lines = [`${state}  ${colours.bold(told.name)}  ${colours.dim(told.taskId)}`, "", told.summary];
  lines.push(...told.evidence.map((line) => colours.dim(`  · ${line}`)));
  lines.push("", `${colours.bold("Next")}  ${told.isStuck ? colours.yellow(told.next) : told.next}`);
  if (told.advice.length > 0)
    lines.push("", ...told.advice.map((command) => `  ${colours.dim("$")} ${colours.cyan(command)}`));
  return lines;
}
