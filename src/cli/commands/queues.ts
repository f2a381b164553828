/** `everbeat queues`: the queues, how full they are, and their settings. */
import { type Command, Option } from "commander";
import { nearestKey } from "../../config/nearest-key.ts";
import { wholeNumber } from "../arguments.ts";
import { asking } from "../asking.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import { UsageError } from "../errors.ts";
import { queueTable } from "../queue-table.ts";
import { leftOutWords, mostBusy } from "../queues-of-interest.ts";
import { addQueuesPause } from "./queues-pause.ts";
import { addQueuesResume } from "./queues-resume.ts";
import { addQueuesSet } from "./queues-set.ts";

interface QueuesOptions {
  readonly limit: number;
  readonly all?: boolean;
}

export function addQueues(cli: Cli, program: Command): void {
  const queues: Command = addCommand<QueuesOptions>(cli, program, {
    usage: "queues",
    description: "list the queues; pause, resume or limit one",
    group: "Look and act:",
    examples: [
      "everbeat queues",
      "everbeat queues --limit 500",
      "everbeat queues pause mail",
      "everbeat queues set mail --concurrency 5 --rate-limit 100/1s",
    ],
    // A word that is no command of the group comes to us, who know the commands to suggest.
    configure: (command) =>
      command
        .allowExcessArguments()
        .helpCommand(false)
        .option(
          "--limit <number>",
          "how many at most, those with the most to do first",
          wholeNumber({ min: 1, max: 1_000_000 }),
          100,
        )
        .addOption(new Option("--all", "show all of them").conflicts("limit")),
    run: (call) => listQueues(call, queues),
  });
  for (const add of [addQueuesPause, addQueuesResume, addQueuesSet]) add(cli, queues);
}

async function listQueues(call: Call<QueuesOptions>, group: Command): Promise<undefined> {
  const [word] = call.words;
  const { options, screen } = call;
  if (word !== undefined && word !== "list") throw unknownCommand(word, group);
  await asking(call, async ({ ask }) => {
    const answer = await ask("queues.list", {});
    screen.answer(answer, () => {
      const { queues } = answer;
      if (queues.length === 0) return "There are no queues yet: the first task that is enqueued into one makes it.";
      const shown = options.all ? queues : mostBusy(queues, options.limit);
      const rest = leftOutWords(queues, shown);
      const remark = rest === undefined ? [] : [screen.colours.dim(`${rest} (--all shows them)`)];
      return [...queueTable(shown, screen), ...remark];
    });
  });
  return undefined;
}

function unknownCommand(word: string, group: Command): UsageError {
  const known = group.commands.map((command) => command.name());
  const nearest = nearestKey(word, known);
  const hint = nearest ? `Did you mean ${nearest}?` : `Known are ${known.join(", ")}.`;
  return new UsageError(`Unknown command 'queues ${word}'. ${hint}`);
}
