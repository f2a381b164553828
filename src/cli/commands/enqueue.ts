/** `everbeat enqueue`: one task by its name, which this process need not know. */
import { text } from "node:stream/consumers";
import type { Command } from "commander";
import { type Asking, asking } from "../asking.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import { type EnqueueCliOptions, enqueueFlags, readEnqueueCall } from "../enqueue-options.ts";
import type { Screen } from "../screen.ts";

const MONTH_MS = 30 * 86_400_000;

export function addEnqueue(cli: Cli, program: Command): void {
  addCommand<EnqueueCliOptions>(cli, program, {
    usage: "enqueue",
    description: "put a task in, with its input as JSON",
    group: "Work:",
    examples: [
      `everbeat enqueue resize '{"url": "https://example.com/a.png"}'`,
      "everbeat enqueue nightly-report --wait",
      "everbeat enqueue import - < orders.json",
      `everbeat enqueue remind '{"user": 7}' --delay 2h --unique-key user-7 --on-duplicate replace`,
      `everbeat enqueue migrate-database '"orders"' --exclusive-key orders --priority -10`,
    ],
    configure(command) {
      command
        .argument("<name>", "the task's name, as in its definition")
        .argument("[json]", "its input (default: null); - reads it from standard input");
      for (const flag of enqueueFlags()) command.addOption(flag);
      command
        .option("--wait", "wait until it has ended, and show its result")
        .option("--timeout <duration>", "wait no longer than this");
    },
    run: enqueue,
  });
}

async function enqueue(call: Call<EnqueueCliOptions>): Promise<undefined> {
  const { options, screen } = call;
  const [name = "", json = "null"] = call.words;
  const { timeoutMs, ...task } = readEnqueueCall(name, json === "-" ? await text(process.stdin) : json, options);

  await asking(call, async ({ ask }) => {
    const answer = await ask("tasks.enqueue", task);
    const { id, queue, wasThere, isUnknown } = answer;
    const { colours } = screen;
    const removed = queue === null ? ", and its record has been removed since" : "";
    const headline = wasThere ? `was there already under this key${removed}` : "enqueued";
    if (!screen.isJson) screen.say(`${colours.green("✓")} ${colours.bold(name)} ${headline}: ${id}`);
    if (isUnknown) screen.remark(screen.errorColours.yellow(unknownNote(name)));
    if (!options.wait) return screen.answer(answer, () => []);
    const result = await awaitResult(ask, id, { screen, timeoutMs });
    screen.answer({ ...answer, result }, () => JSON.stringify(result, null, 2).split("\n"));
  });
  return undefined;
}

async function awaitResult(
  ask: Asking["ask"],
  id: string,
  { screen, timeoutMs }: { screen: Screen; timeoutMs: number | undefined },
): Promise<unknown> {
  screen.progress.show("waiting for its result");
  try {
    return (await ask("tasks.result", { id, timeout: timeoutMs ?? MONTH_MS })).result;
  } finally {
    screen.progress.clear();
  }
}

function unknownNote(name: string): string {
  return `! No worker that is online knows a task named "${name}": it waits until one comes that does.`;
}
