/** `everbeat enqueue`: one task by its name, which this process need not know. */
import { text } from "node:stream/consumers";
import type { Command } from "commander";
import type { Everbeat } from "../../everbeat.ts";
import { asEnqueueError } from "../../queue/enqueue-refusals.ts";
import { enqueueByName } from "../../sql/enqueue-by-name.ts";
import { TaskNotFoundError } from "../../task/errors.ts";
import { type TaskId, TaskIds } from "../../task/ids.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import { type EnqueueCall, type EnqueueCliOptions, enqueueFlags, readEnqueueCall } from "../enqueue-options.ts";
import { withEverbeat } from "../open-for-command.ts";
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
  const task = readEnqueueCall(name, json === "-" ? await text(process.stdin) : json, options);

  await withEverbeat(call, async (everbeat) => {
    const given = typeof task.options["id"] === "string" ? task.options["id"] : new TaskIds().next();
    const id = await put(everbeat, { ...task, options: { ...task.options, id: given } });
    const { queue, isUnknown, isGone } = await whereIs(everbeat, id);
    const wasThere = id !== given;
    const { colours } = screen;
    const removed = isGone ? ", and its record has been removed since" : "";
    const headline = wasThere ? `was there already under this key${removed}` : "enqueued";
    if (!screen.isJson) screen.say(`${colours.green("✓")} ${colours.bold(name)} ${headline}: ${id}`);
    if (isUnknown) screen.remark(screen.errorColours.yellow(unknownNote(name)));
    if (!options.wait) return screen.answer({ id, name, queue, wasThere }, () => []);
    const result = await awaitResult(everbeat, id, { screen, timeoutMs: task.timeoutMs });
    screen.answer({ id, name, queue, wasThere, result }, () => JSON.stringify(result, null, 2).split("\n"));
  });
  return undefined;
}

async function put(everbeat: Everbeat, { name, inputJson, options }: EnqueueCall): Promise<TaskId> {
  try {
    const optionsJson = JSON.stringify(options);
    return (await enqueueByName(everbeat.database, { name, inputJson, optionsJson })) as TaskId;
  } catch (error) {
    throw asEnqueueError(error);
  }
}

/** A key may be taken by a task whose record was removed: it is asked for longer than records stay. */
async function whereIs(
  everbeat: Everbeat,
  id: TaskId,
): Promise<{ queue: string | null; isUnknown: boolean; isGone: boolean }> {
  try {
    return { ...(await everbeat.tasks.show(id)), isGone: false };
  } catch (error) {
    if (error instanceof TaskNotFoundError) return { queue: null, isUnknown: false, isGone: true };
    throw error;
  }
}

async function awaitResult(
  everbeat: Everbeat,
  id: TaskId,
  { screen, timeoutMs }: { screen: Screen; timeoutMs: number | undefined },
): Promise<unknown> {
  screen.progress.show("waiting for its result");
  try {
    return await everbeat.result(id, { timeout: timeoutMs ?? MONTH_MS });
  } finally {
    screen.progress.clear();
  }
}

function unknownNote(name: string): string {
  return `! No worker that is online knows a task named "${name}": it waits until one comes that does.`;
}
