/** `everbeat explain`: why a task is where it is, and what will happen when. */
import type { Command } from "commander";
import type { Explanation } from "../../index.ts";
import { adviceText } from "../advice-text.ts";
import { asking } from "../asking.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import type { Screen } from "../screen.ts";
import { inColourOf, marked } from "../states.ts";
import { pack, prose } from "../wrap.ts";

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
  await asking(call, async ({ ask }) => {
    const explanation = await ask("tasks.explain", { id });
    call.screen.answer(explanation, () => describeExplanation(explanation, call.screen));
  });
  return undefined;
}

function describeExplanation(told: Explanation, screen: Screen): string[] {
  const { colours, width } = screen;
  const title = [
    { text: marked(told.state), paint: (text: string) => inColourOf(told.state, text, colours) },
    { text: told.name, paint: colours.bold },
    { text: told.taskId, paint: colours.dim },
  ];
  const lines = [...pack(title, { width, between: "  " }), "", ...prose(told.summary, { width })];
  lines.push(...told.evidence.flatMap((line) => prose(line, { width, mark: "  · ", paint: colours.dim })));
  const paint = told.isStuck ? colours.yellow : String;
  lines.push("", ...prose(told.next, { width, mark: "Next  ", paintMark: colours.bold, paint }));
  if (told.advice.length > 0) lines.push("", ...told.advice.flatMap((advice) => adviceText(advice, screen)));
  return lines;
}
