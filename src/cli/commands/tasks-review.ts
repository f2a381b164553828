/** `everbeat tasks review`: tasks whose worker died under them, until somebody has looked at what they left behind. */
import { type Command, Option } from "commander";
import type { ReviewTask } from "../../index.ts";
import { isReviewNote } from "../../recovery/review.ts";
import { isName } from "../../task/settings.ts";
import { checkedBy, wholeNumber } from "../arguments.ts";
import { type Asking, asking } from "../asking.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import { UsageError } from "../errors.ts";
import { EXIT, type ExitCode } from "../exit-codes.ts";
import type { Screen } from "../screen.ts";
import { type Column, table } from "../table.ts";
import { queueColumn, taskNameColumn } from "../task-columns.ts";
import { assertListed, limitReached, redrive } from "../task-orders.ts";
import { fromNow, lasting } from "../times.ts";
import { prose } from "../wrap.ts";

interface ReviewOptions {
  readonly name?: string;
  readonly queue?: string;
  readonly all?: boolean;
  readonly limit: number;
  readonly done?: boolean;
  readonly redrive?: boolean;
  readonly note?: string;
}

export function addTasksReview(cli: Cli, parent: Command): void {
  addCommand<ReviewOptions>(cli, parent, {
    usage: "review [ids...]",
    description: "list tasks whose worker or runner died while running them; take them off the list, or run them again",
    examples: [
      "everbeat tasks review",
      `everbeat tasks review 0198c6f0-5a5e-7c3e-9d55-0b7f3c1f2a11 --done --note "the invoice was sent once"`,
      "everbeat tasks review --name resize --redrive     they can be repeated: run them all again",
    ],
    configure(command) {
      command
        .optionsGroup("Filters:")
        .option("--name <name>", "tasks of this name", checkedBy(isName))
        .option("--queue <queue>", "tasks of this queue", checkedBy(isName))
        .option("--limit <number>", "how many at most, 1 to 1000", wholeNumber({ min: 1, max: 1_000 }), 100)
        .option("--all", "with --done or --redrive: every one that needs review; else also those that were reviewed")
        .optionsGroup("Options:")
        .addOption(new Option("--done", "take them off the list: somebody has looked").conflicts("redrive"))
        .option("--redrive", "take them off the list, and run them again")
        .option("--note <text>", "what was found, kept with the task", checkedBy(isReviewNote));
    },
    run: review,
  });
}

async function review(call: Call<ReviewOptions>): Promise<ExitCode> {
  const { options, words } = call;
  const acts = options.done === true || options.redrive === true;
  if (options.note !== undefined && !acts) throw new UsageError("--note needs --done or --redrive.");
  if (acts) assertListed(words, options);
  return asking(call, async (asked) => {
    const { name, queue, limit } = options;
    const ids = words.length === 0 ? undefined : words;
    // Who names tasks means those, reviewed before or not.
    const all = words.length > 0 || (options.all === true && !acts);
    const { tasks } = await asked.ask("review.list", { name, queue, ids, all, limit });
    if (acts) await act(call, asked, tasks);
    else await show(call, asked, tasks);
    return words.some((id) => !tasks.some((task) => task.id === id.toLowerCase())) ? EXIT.failed : EXIT.ok;
  });
}

async function show(
  { screen, words, options }: Call<ReviewOptions>,
  asked: Asking,
  tasks: readonly ReviewTask[],
): Promise<void> {
  const now = await asked.now();
  screen.answer({ tasks }, () => {
    if (tasks.length === 0) return noneWords(words, options);
    const hint = "Each may have had part of its effects. When you have looked: --done, or --redrive to run it again.";
    return [
      ...reviewTable(tasks, now, screen),
      "",
      ...prose(hint, { width: screen.width, paint: screen.colours.yellow }),
    ];
  });
}

async function act(
  { screen, words, options }: Call<ReviewOptions>,
  asked: Asking,
  tasks: readonly ReviewTask[],
): Promise<void> {
  const { note } = options;
  const ids = tasks.map((task) => task.id);
  const { reviewed } = ids.length === 0 ? { reviewed: [] } : await asked.ask("review.mark", { ids, note });
  const redriven = options.redrive ? await redrive(asked, reviewed) : [];
  screen.answer({ reviewed, redriven }, () => {
    if (reviewed.length === 0) return `${noneWords(words, options)} Nothing was done.`;
    const lines = reviewed.map((id) => `${screen.colours.green("✓")} ${id}`);
    const also = options.redrive ? `, ${redriven.length} run again` : "";
    return [...lines, "", `${reviewed.length} reviewed${also}`, ...limitReached(tasks.length, options.limit)];
  });
}

function noneWords(words: readonly string[], { name, queue }: ReviewOptions): string {
  if (words.length > 0) return "None of these failed because its worker or runner died.";
  return name === undefined && queue === undefined
    ? "No task needs review."
    : "No task that needs review fits these filters.";
}

function reviewTable(tasks: readonly ReviewTask[], now: Date, { colours, width }: Screen): string[] {
  const columns: Column<ReviewTask>[] = [
    { title: "ID", value: (task) => task.id },
    taskNameColumn(colours),
    queueColumn(),
    { title: "ATTEMPT", value: (task) => String(task.attempt), align: "right" },
    { title: "RAN FOR", value: (task) => lasting(task.startedAt, task.endedAt), align: "right" },
    { title: "FAILED", value: (task) => fromNow(task.endedAt, now) },
    { title: "REVIEWED", value: (task) => fromNow(task.reviewedAt, now), isOptional: true },
    { title: "NOTE", label: "note:", value: (task) => task.note ?? "", isOptional: true, atLeast: 30 },
    {
      ...{ title: "WHAT HAPPENED", label: "", value: (task) => task.error.message, atLeast: 30 },
      style: (text) => colours.dim(text),
    },
  ];
  return table(tasks, columns, { colours, width });
}
