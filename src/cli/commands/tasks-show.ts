/** `everbeat tasks show`: one task with all its attempts. */
import type { Command } from "commander";
import { rateWords } from "../../config/rate-words.ts";
import { readClock } from "../../sql/clock.ts";
import type { ProgressRow } from "../../sql/progress.ts";
import type { AttemptRow, LateRow, TaskDetails } from "../../sql/tasks.ts";
import type { Colours } from "../colours.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import { withEverbeat } from "../open-for-command.ts";
import type { Screen } from "../screen.ts";
import { shortJson } from "../short-json.ts";
import { inColourOf, marked } from "../states.ts";
import { pairs, paragraphs, quoted, table } from "../table.ts";
import { remarkOn } from "../task-remarks.ts";
import { fromNow, lasting, momentAndDistance } from "../times.ts";

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
  await withEverbeat(call, async (everbeat) => {
    const task = await everbeat.tasks.show(id);
    const now = await readClock(everbeat.database);
    call.screen.answer(task, () => describeTask(task, now, call.screen));
  });
  return undefined;
}

function describeTask(task: TaskDetails, now: Date, screen: Screen): string[] {
  const { colours } = screen;
  const state = inColourOf(task.state, marked(task.state), colours);
  const remark = task.state === "failed" ? "" : remarkOn(task, now);
  const last = task.attempts.at(-1)?.progress;
  const head = pairs(
    [
      ["id", task.id],
      ["task", colours.bold(task.name)],
      ["state", remark === "" ? state : `${state}  ${colours.dim(remark)}`],
      [
        "progress",
        last?.changedAt ? `${progressWords(last)}  ${colours.dim(fromNow(last.changedAt, now))}` : undefined,
      ],
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
      ["post-mortem", task.postMortem ?? undefined],
      ["error", task.error ? colours.red(`${task.error.code}: ${task.error.message}`) : undefined],
    ],
    { colours },
  );
  const parts = [head];
  if (task.attempts.length > 0) parts.push([title(task, colours), ...attemptTable(task.attempts, now, screen)]);
  if (last?.log && task.state !== "completed") {
    const lines = last.log.map(({ at, level, text }) => `  ${colours.dim(`${at} ${level}`)} ${text}`);
    parts.push([colours.bold("Last log lines"), ...lines]);
  }
  if (task.late.length > 0) {
    const title = `${colours.bold("Late")} ${colours.dim("outcomes that came after their claim was lost: refused, and kept here")}`;
    parts.push([title, ...lateTable(task.late, now, screen)]);
  }
  if (task.error?.stack) parts.push([colours.bold("Stack"), ...quoted(task.error.stack, { colours })]);
  return paragraphs(...parts);
}

function title({ attemptsDropped }: TaskDetails, colours: Colours): string {
  if (attemptsDropped === 0) return colours.bold("Attempts");
  return `${colours.bold("Attempts")} ${colours.dim(`without ${attemptsDropped} in the middle, which are no longer on record`)}`;
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
      { title: "TOOK", value: (row) => lasting(row.startedAt, row.endedAt ?? now), align: "right" },
      {
        title: "ERROR",
        label: "",
        value: (row) => row.error?.message ?? "",
        atLeast: 30,
        isOptional: true,
        style: (text) => colours.dim(text),
      },
    ],
    { colours, width, indent: 2 },
  );
}

function lateTable(late: readonly LateRow[], now: Date, { colours, width }: Screen): string[] {
  return table<LateRow>(
    late,
    [
      { title: "OUTCOME", value: (row) => marked(row.outcome), style: (text) => colours.yellow(text) },
      { title: "CLAIM", value: (row) => row.claimId, align: "right" },
      { title: "REPLICA", value: (row) => row.replicaId },
      { title: "ARRIVED", value: (row) => fromNow(row.arrivedAt, now) },
      { title: "ERROR", label: "", value: (row) => row.error?.message ?? "", isOptional: true, atLeast: 30 },
    ],
    { colours, width, indent: 2 },
  );
}
