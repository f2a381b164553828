/** The log of a worker at work: JSON lines for programs, or lines that people like to read. */
import { formatDuration } from "../config/duration.ts";
import { jsonLogger, type LogFields, type Logger, type LogLevel, UNSHOWABLE, writeFirst } from "../log.ts";
import { showableFields } from "../log-fields.ts";
import { type ErrorRecord, inOneLine } from "../task/error-record.ts";
import type { AttemptOutcome } from "../task/states.ts";
import type { Colours } from "./colours.ts";
import type { Screen } from "./screen.ts";
import { isShownError, shortError } from "./short-error.ts";
import { inColourOf, marked } from "./states.ts";

type LineLevel = Exclude<LogLevel, "silent">;
const LEVELS = ["debug", "info", "warn", "error"] as const;

export function createWorkLog(screen: Screen, level: LogLevel): Logger {
  const write = (line: string) => (screen.isJson ? screen.answerLine(line) : screen.say(line));
  const log = screen.isJson ? jsonLogger({ level, write }) : peopleLogger(level, write, screen.colours);
  return {
    ...log,
    debug: (fields, message) => log[isFailure(fields) ? "warn" : "debug"](fields, message),
    // A detail may turn out to be a warning.
    isLevelEnabled: (asked) => log.isLevelEnabled?.(asked === "debug" ? "warn" : asked) ?? true,
  };
}

/** To the engine an attempt's end is a detail; to whoever watches the worker, a failure is not. */
function isFailure(fields: LogFields): boolean {
  return fields["event"] === "task.ended" && fields["outcome"] === "failed";
}

function peopleLogger(threshold: LogLevel, write: (line: string) => void, colours: Colours): Logger {
  const writer = (level: LineLevel) => (fields: LogFields, message: string) => {
    if (threshold === "silent" || LEVELS.indexOf(level) < LEVELS.indexOf(threshold)) return;
    const time = colours.dim(new Date().toTimeString().slice(0, 8));
    const lineOf = (shown: LogFields, words: string) =>
      `${time}  ${sign(level, shown, colours)} ${sentence(shown, words)}${tail(shown, words, colours)}`;
    writeFirst(write, [() => lineOf(fields, message), () => lineOf({}, `${String(message)} (${UNSHOWABLE})`)]);
  };
  return { debug: writer("debug"), info: writer("info"), warn: writer("warn"), error: writer("error") };
}

function sign(level: LineLevel, fields: LogFields, colours: Colours): string {
  if (fields["event"] === "task.started") return inColourOf("running", marked("running", ""), colours).trimEnd();
  const outcome = fields["outcome"] as AttemptOutcome | undefined;
  if (fields["event"] === "task.ended" && outcome) return inColourOf(outcome, marked(outcome, "").trimEnd(), colours);
  if (level === "error") return colours.red("✗");
  return level === "warn" ? colours.yellow("!") : colours.dim("·");
}

function sentence(fields: LogFields, message: string): string {
  const { event, name, outcome, durationMs, willRunAgain, error, attempt } = fields;
  if (event === "task.started") return `${name} started${Number(attempt) > 1 ? `, attempt ${attempt}` : ""}`;
  if (event !== "task.ended") return message;
  const why = error === undefined ? "" : inOneLine(error as ErrorRecord);
  const again = willRunAgain ? "; it will run again" : "";
  return `${name} ${outcome} after ${formatDuration(Number(durationMs))}${why ? `: ${why}` : ""}${again}`;
}

/** What a line is about, and the fields that a handler's own log line brought along. */
function tail(fields: LogFields, message: string, colours: Colours): string {
  const { event, taskId, replicaId, ...rest } = fields;
  const about = taskId ?? replicaId;
  const own = event === undefined ? Object.entries(showableFields(rest)).filter(([key]) => key !== "attempt") : [];
  const details = own.map(([key, value]) => `${key}=${shown(value, message)}`);
  const parts = [...details, ...(about === undefined ? [] : [String(about)])];
  return parts.length === 0 ? "" : `  ${colours.dim(parts.join(" "))}`;
}

function shown(value: unknown, message: string): string {
  if (isShownError(value)) return shortError(value, message);
  return typeof value === "string" ? value : JSON.stringify(value);
}
