/** `everbeat tasks show`: one task with all its attempts. */
import type { Command } from "commander";
import { rateWords } from "../../config/rate-words.ts";
import type { AttemptRow, LateRow, ProgressRow, TaskDetails } from "../../index.ts";
import { type ErrorRecord, inOneLine } from "../../task/error-record.ts";
import { asking } from "../asking.ts";
import type { Colours } from "../colours.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import { printable } from "../printable.ts";
import type { Screen } from "../screen.ts";
import { shortJson } from "../short-json.ts";
import { inColourOf, marked } from "../states.ts";
import { pairs, paragraphs, quoted, table } from "../table.ts";
import { remarkOn } from "../task-remarks.ts";
import { fromNow, lasting, momentAndDistance } from "../times.ts";
import { prose } from "../wrap.ts";

export function addTasksShow(cli: Cli, parent: Command): void {
  addCommand(cli, parent, {
    usage: "show <id>",
    description: "show one task: its input, its result, every attempt",
    examples: [
      "everbeat tasks show 0198c6f0-5a5e-7c3e-9d55-0b7f3c1f2a11",
      "everbeat tasks show 0198c6f0-5a5e-7c3e-9d55-0b7f3c1f2a11 --json | jq .result",
    ],
    run: showTask,
  });
}

async function showTask(call: Call): Promise<undefined> {
  const [id = ""] = call.words;
  await asking(call, async (asked) => {
    const task = await asked.ask("tasks.show", { id });
    const now = await asked.now();
    call.screen.answer(task, () => describeTask(task, now, call.screen));
  });
  return undefined;
}

function describeTask(task: TaskDetails, now: Date, screen: Screen): string[] {
  const { colours, width } = screen;
  const state = marked(task.state);
  const paintState = (line: string) =>
    line.startsWith(state)
      ? `${inColourOf(task.state, state, colours)}${colours.dim(line.slice(state.length))}`
      : colours.dim(line);
  const remark = task.state === "failed" ? "" : remarkOn(task, now);
  const last = task.attempts.at(-1)?.progress;
  const head = pairs(
    [
      ["id", task.id],
      ["task", colours.bold(task.name)],
      ["state", remark === "" ? state : `${state}  ${remark}`, paintState],
      ["progress", last?.changedAt ? `${progressWords(last)}  ${fromNow(last.changedAt, now)}` : undefined, String],
      ["runs in", task.runner ? runnerWords(task.runner) : undefined],
      ["queue", `${task.queue}, priority ${task.priority}`],
      ["enqueued", momentAndDistance(task.createdAt, now)],
      ["due", task.state === "pending" ? momentAndDistance(task.runAt, now) : undefined],
      ["ended", momentAndDistance(task.endedAt, now)],
      ["expires", task.state === "pending" ? momentAndDistance(task.expiresAt, now) : undefined],
      ["unique key", task.uniqueKey ?? undefined],
      ["exclusive key", task.exclusiveKey ?? undefined],
      ["rate key", task.rateLimit ? `${task.rateLimit.key}, ${rateWords(task.rateLimit)}` : undefined],
      ["input", shortJson(task.input)],
      ["metadata", task.metadata === null ? undefined : shortJson(task.metadata)],
      ["result", task.state === "completed" ? shortJson(task.result) : undefined],
      ["post-mortem", postMortemWords(task.attempts), String],
      ["error", task.error ? `${codeWords(task.error)}: ${inOneLine(task.error)}` : undefined, colours.red],
    ],
    { colours, width },
  );
  const parts = [head];
  if (task.attempts.length > 0) parts.push([title(task, colours), ...attemptTable(task.attempts, now, screen)]);
  if (last?.log && task.state !== "completed") {
    const lines = last.log.flatMap(({ at, level, text }) =>
      prose(text, { width, mark: `  ${printable(`${at} ${level}`)} `, paint: String, paintMark: colours.dim }),
    );
    parts.push([colours.bold("Last log lines"), ...lines]);
  }
  if (task.late.length > 0) {
    const title = `${colours.bold("Late")} ${colours.dim("outcomes that came after their claim was lost: refused, and kept here")}`;
    parts.push([title, ...lateTable(task.late, now, screen)]);
  }
  if (task.error?.stack) parts.push([colours.bold("Stack"), ...quoted(task.error.stack, { colours })]);
  if (task.error) parts.push(...behind(task.error, colours));
  return paragraphs(...parts);
}

/** What is on record for an error that has no code. */
const NO_CODE = "TASK_FAILED";

/** `TASK_FAILED (TypeError)`: the name where it says something, beside what the error is found by. */
function codeWords({ code, name }: ErrorRecord): string {
  return code === NO_CODE && name !== undefined && name !== "Error" ? `${code} (${name})` : code;
}

/** What an error was made of: a part for its cause, and for each error in it. */
function behind({ cause, errors = [], errorsLeftOff }: ErrorRecord, colours: Colours): string[][] {
  const part = (name: string, error: ErrorRecord) => {
    // Where it has no code of its own, its name says more than that of the task's failure.
    const title = error.code === NO_CODE ? (error.name ?? "Error") : codeWords(error);
    const text = [`${title}: ${error.message}`, ...(error.stack === undefined ? [] : [error.stack])].join("\n");
    return [[colours.bold(name), ...quoted(text, { colours })], ...behind(error, colours)];
  };
  return [
    ...errors.flatMap((error, index) => part(`Error ${index + 1} of ${errors.length + (errorsLeftOff ?? 0)}`, error)),
    ...(cause === undefined ? [] : part("Cause", cause)),
  ];
}

function title({ attemptsDropped }: TaskDetails, colours: Colours): string {
  if (attemptsDropped === 0) return colours.bold("Attempts");
  return `${colours.bold("Attempts")} ${colours.dim(`without ${attemptsDropped} in the middle, which are no longer on record`)}`;
}

const POST_MORTEMS_SHOWN = 5;

/** Each with its attempt: the error of the task may be that of another one. */
function postMortemWords(attempts: readonly AttemptRow[]): string | undefined {
  const dead = attempts.filter(({ postMortem }) => postMortem !== null).slice(-POST_MORTEMS_SHOWN);
  return dead.map(({ attempt, postMortem }) => `attempt ${attempt}: ${postMortem}`).join("\n") || undefined;
}

function runnerWords({ kind, pid, status }: NonNullable<TaskDetails["runner"]>): string {
  return `${kind === "process" ? `process ${pid}` : "a thread"} of its own, ${status}`;
}

/** `download {"platform":"cdn"}, 50 % (page 3)`. */
function progressWords({ phase, details, share, done, total, note }: ProgressRow): string {
  const parts: string[] = [];
  if (phase !== null) parts.push(details === null ? phase : `${phase} ${JSON.stringify(details)}`);
  const count = total === null ? "" : `, ${done} of ${total}`;
  if (share !== null) parts.push(`${Math.round(share * 100)} %${count}${note === null ? "" : ` (${note})`}`);
  return parts.join(", ");
}

function attemptTable(attempts: readonly AttemptRow[], now: Date, { colours, width }: Screen): string[] {
  return table<AttemptRow>(
    attempts,
    [
      { title: "#", value: (row) => String(row.attempt), align: "right" },
      {
        title: "OUTCOME",
        value: (row) => marked(row.outcome),
        style: (text, row) => inColourOf(row.outcome, text, colours),
      },
      { title: "CLAIM", value: (row) => row.claimId, align: "right" },
      { title: "REPLICA", value: (row) => row.replicaId },
      { title: "STARTED", value: (row) => fromNow(row.startedAt, now) },
      { title: "TOOK", value: (row) => tookWords(row, now), align: "right" },
      {
        title: "ERROR",
        label: "",
        value: (row) => (row.error ? inOneLine(row.error) : ""),
        atLeast: 30,
        isOptional: true,
        style: (text) => colours.dim(text),
      },
    ],
    { colours, width, indent: 2 },
  );
}

function tookWords({ startedAt, endedAt }: AttemptRow, now: Date): string {
  if (endedAt !== null || startedAt === null) return lasting(startedAt, endedAt);
  return `${lasting(startedAt, now)} so far`;
}

function lateTable(late: readonly LateRow[], now: Date, { colours, width }: Screen): string[] {
  return table<LateRow>(
    late,
    [
      { title: "OUTCOME", value: (row) => marked(row.outcome), style: (text) => colours.yellow(text) },
      { title: "CLAIM", value: (row) => row.claimId, align: "right" },
      { title: "REPLICA", value: (row) => row.replicaId },
      { title: "ARRIVED", value: (row) => fromNow(row.arrivedAt, now) },
      {
        title: "ERROR",
        label: "",
        value: (row) => (row.error ? inOneLine(row.error) : ""),
        isOptional: true,
        atLeast: 30,
      },
    ],
    { colours, width, indent: 2 },
  );
}
