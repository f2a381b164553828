/** `everbeat enqueue`: one task by its name, which this process need not know. */
import { text } from "node:stream/consumers";
import type { Command } from "commander";
import { Option } from "commander";
import { isText } from "../../config/checks.ts";
import type { Everbeat } from "../../everbeat.ts";
import { ENQUEUE_SHAPE } from "../../queue/enqueue-options.ts";
import { asEnqueueError } from "../../queue/enqueue-refusals.ts";
import { enqueueByName } from "../../sql/enqueue-by-name.ts";
import { type TaskId, TaskIds } from "../../task/ids.ts";
import { isName, PRIORITY_RANGE } from "../../task/settings.ts";
import { checkedBy, duration, instant, wholeNumber } from "../arguments.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import { UsageError } from "../errors.ts";
import { withEverbeat } from "../open-for-command.ts";

interface EnqueueCliOptions {
  readonly id?: string;
  readonly queue?: string;
  readonly priority?: number;
  readonly delay?: number;
  readonly runAt?: string;
  readonly expiresIn?: number;
  readonly uniqueKey?: string;
  readonly onDuplicate?: string;
  readonly exclusiveKey?: string;
  readonly wait?: boolean;
  readonly timeout?: number;
}

const MONTH_MS = 30 * 86_400_000;
const wait = duration({ minMs: 0, maxMs: 10 * 365 * 86_400_000 });
const key = checkedBy(isText({ max: 512 }));

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
        .argument("<name>", "the task's name, as in its definition", checkedBy(isName))
        .argument("[json]", "its input (default: null); - reads it from standard input")
        .option("--queue <queue>", "(default: that of the task's definition)", checkedBy(isName))
        .option("--priority <number>", "-100 (first) to 100 (last)", wholeNumber(PRIORITY_RANGE))
        .option("--delay <duration>", "not before this long from now, such as 90s or 2h", wait)
        .addOption(new Option("--run-at <time>", "not before this ISO 8601 time").argParser(instant).conflicts("delay"))
        .option("--expires-in <duration>", "never, if it has not started by then", wait)
        .option("--unique-key <key>", "at most one task of this name with this key", key)
        .addOption(
          new Option("--on-duplicate <what>", "what happens if there is one").choices(["keep", "replace", "refuse"]),
        )
        .option("--exclusive-key <key>", "never two at once with this key, anywhere", key)
        .option("--id <uuid>", "the task's id: the same id twice is the same task", checkedBy(ENQUEUE_SHAPE.id))
        .option("--wait", "wait until it has ended, and show its result")
        .option("--timeout <duration>", "wait no longer than this", duration({ minMs: 0, maxMs: MONTH_MS }));
    },
    run: enqueue,
  });
}

async function enqueue(call: Call<EnqueueCliOptions>): Promise<undefined> {
  const { options, screen } = call;
  const [name = "", json = "null"] = call.words;
  const inputJson = assertJson(json === "-" ? await text(process.stdin) : json);
  if (options.timeout !== undefined && !options.wait) throw new UsageError("--timeout needs --wait.");
  if (options.onDuplicate !== undefined && options.uniqueKey === undefined)
    throw new UsageError("--on-duplicate needs --unique-key.");

  await withEverbeat(call, async (everbeat) => {
    const given = options.id ?? new TaskIds().next();
    const id = await put(everbeat, { name, inputJson, id: given, options });
    const task = await everbeat.tasks.show(id);
    const wasThere = id !== given;
    const { colours } = screen;
    const headline = wasThere ? "was there already under this key" : "enqueued";
    if (!screen.isJson) screen.say(`${colours.green("✓")} ${colours.bold(name)} ${headline}: ${id}`);
    if (task.isUnknown) screen.remark(screen.errorColours.yellow(unknownNote(name)));
    if (!options.wait) return screen.answer({ id, name, queue: task.queue, wasThere }, () => "");
    const result = await awaitResult(everbeat, id, call);
    screen.answer({ id, name, queue: task.queue, wasThere, result }, () => JSON.stringify(result, null, 2));
  });
  return undefined;
}

function assertJson(given: string): string {
  try {
    JSON.parse(given);
    return given;
  } catch (error) {
    throw new UsageError(
      `The input is not JSON: ${(error as Error).message}. Quote it for the shell, as in '{"url": "a.png"}' or '"text"'.`,
    );
  }
}

async function put(
  everbeat: Everbeat,
  task: { name: string; inputJson: string; id: string; options: EnqueueCliOptions },
): Promise<TaskId> {
  const { queue, priority, delay, runAt, expiresIn, uniqueKey, onDuplicate, exclusiveKey } = task.options;
  const given = { queue, priority, delay, runAt, expiresIn, uniqueKey, onDuplicate, exclusiveKey };
  try {
    const optionsJson = JSON.stringify({ ...given, id: task.id });
    const { name, inputJson } = task;
    return (await enqueueByName(everbeat.database, { name, inputJson, optionsJson })) as TaskId;
  } catch (error) {
    throw asEnqueueError(error);
  }
}

async function awaitResult(
  everbeat: Everbeat,
  id: TaskId,
  { options, screen }: Call<EnqueueCliOptions>,
): Promise<unknown> {
  screen.progress.show("waiting for its result");
  try {
    return await everbeat.result(id, { timeout: options.timeout ?? MONTH_MS });
  } finally {
    screen.progress.clear();
  }
}

function unknownNote(name: string): string {
  return `! No worker that is online knows a task named "${name}": it waits until one comes that does.`;
}
