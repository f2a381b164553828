/** What the commands that order something done to tasks have in common: which tasks, and what came of it. */
import type { Ordered } from "../index.ts";
import type { InputOf } from "../operations/operations.ts";
import { stateProblem, type TaskOrder } from "../queue/orderable-states.ts";
import type { Asking } from "./asking.ts";
import type { Call } from "./command.ts";
import { UsageError } from "./errors.ts";
import { EXIT, type ExitCode } from "./exit-codes.ts";
import { formatted } from "./formatted.ts";
import { type Column, table } from "./table.ts";
import { hasFilters, type TaskFilters, toTaskQuery } from "./task-filters.ts";

export interface OutcomeWords<Outcome extends string> {
  /** In a few words for people. */
  readonly meaning: Record<Outcome, string>;
  /** Outcomes that are not what was asked for. */
  readonly failures: readonly Outcome[];
}

/** Who names tasks sees what came of each. Who filters sees some of them, and the counts. */
const MOST_SHOWN = 50;

/** Ids or filters, never both and never neither: an order to everything is given on purpose or not at all. */
export async function chosenTasks(
  { words, options }: Pick<Call<TaskFilters>, "words" | "options">,
  asking: Asking,
): Promise<InputOf<"tasks.retry">> {
  return words.length > 0 ? { ids: words } : toTaskQuery(options, asking);
}

export function assertChoice({ words, options }: Pick<Call<TaskFilters>, "words" | "options">, order: TaskOrder): void {
  if (words.length > 0 && hasFilters(options))
    throw new UsageError(
      "Ids and filters exclude each other. Give the ids of tasks, or filters such as --state failed.",
    );
  if (words.length === 0 && !hasFilters(options))
    throw new UsageError(
      "It is not said which tasks. Give their ids, or filters such as --state failed or --queue mail.",
    );
  const problem = stateProblem(order, options.state);
  if (problem) throw new UsageError(`--state: ${problem.replaceAll("force", "--force")}.`);
}

/** The same for the lists of tasks that need somebody, of which `--all` means every one. */
export function assertListed(
  words: readonly string[],
  options: { name?: string; queue?: string; all?: boolean },
): void {
  const { name, queue, all } = options;
  if (words.length > 0 && all) throw new UsageError("Ids and --all exclude each other.");
  if (words.length === 0 && name === undefined && queue === undefined && !all)
    throw new UsageError("It is not said which tasks. Give their ids, filters such as --queue mail, or --all.");
}

/** Those that had failed. */
export async function redrive({ ask }: Asking, ids: readonly string[]): Promise<string[]> {
  const { tasks } = ids.length === 0 ? { tasks: [] } : await ask("tasks.retry", { ids });
  return tasks.filter(({ outcome }) => outcome === "pending").map(({ id }) => id);
}

/** Where a list was as long as it may be, there may be more than were taken. */
export function limitReached(taken: number, limit: number): string[] {
  return taken < limit ? [] : [`${limit} are taken at once (--limit): there may be more.`];
}

export function answerOrder<Outcome extends string>(
  { words, screen }: Pick<Call, "words" | "screen">,
  answer: {
    readonly tasks: readonly Ordered<Outcome>[];
    readonly counts: Readonly<Record<string, number | undefined>>;
  },
  { meaning, failures }: OutcomeWords<Outcome>,
): ExitCode {
  const { tasks: done, counts } = answer;
  const failed = done.filter((each) => failures.includes(each.outcome));
  const { colours, width } = screen;
  const columns: Column<Ordered<Outcome>>[] = [
    { title: "ID", value: (each) => each.id },
    {
      title: "OUTCOME",
      value: (each) => each.outcome,
      style: (text, each) => (failures.includes(each.outcome) ? colours.yellow(text) : colours.green(text)),
    },
    { title: "MEANING", label: "", value: (each) => meaning[each.outcome], style: (text) => colours.dim(text) },
  ];
  screen.answer(answer, () => {
    if (done.length === 0) return "No task fits these filters, so nothing was done.";
    const totals = Object.entries(counts).map(([outcome, count]) => `${formatted(count ?? 0)} ${outcome}`);
    const shown = inOrderOfInterest(done, failures).slice(0, words.length > 0 ? done.length : MOST_SHOWN);
    const left = done.length - shown.length;
    const more = left > 0 ? ["", `and ${formatted(left)} more; --json lists them all`] : [];
    return [...table(shown, columns, { colours, width }), ...more, "", totals.join(", ")];
  });
  // Who names tasks wants those; who filters takes what there is.
  return words.length > 0 && failed.length > 0 ? EXIT.failed : EXIT.ok;
}

/** What was not done as asked comes first: the rest may not be shown. */
function inOrderOfInterest<Outcome extends string>(
  done: readonly Ordered<Outcome>[],
  failures: readonly Outcome[],
): readonly Ordered<Outcome>[] {
  const isFailure = ({ outcome }: Ordered<Outcome>) => failures.includes(outcome);
  return [...done.filter(isFailure), ...done.filter((each) => !isFailure(each))];
}
