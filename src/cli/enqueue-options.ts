/** The options of `everbeat enqueue`: those of the API under names for a command line, checked by its rules all together. */
import { Option } from "commander";
import { describe } from "../config/checks.ts";
import { Problems } from "../config/problems.ts";
import type { InputOf } from "../operations/operations.ts";
import { checkEnqueueOptions, type ENQUEUE_SHAPE } from "../queue/enqueue-options.ts";
import { isResultTimeout } from "../queue/results.ts";
import { isName } from "../task/settings.ts";
import { asDuration, asNumber, asRate, asTime } from "./arguments.ts";

type ApiOption = Exclude<keyof typeof ENQUEUE_SHAPE, "tx">;

interface Flag {
  readonly flag: string;
  readonly value: string;
  readonly help: string;
  /** What the API is given for this text. */
  readonly read?: (text: string) => unknown;
}

const FLAGS: Record<ApiOption, Flag> = {
  queue: { flag: "--queue", value: "queue", help: "(default: that of the task's definition)" },
  priority: { flag: "--priority", value: "number", help: "-100 (first) to 100 (last)", read: asNumber },
  delay: { flag: "--delay", value: "duration", help: "not before this long from now, as in 90s", read: asDuration },
  runAt: { flag: "--run-at", value: "time", help: "not before this ISO 8601 time", read: asTime },
  expiresIn: { flag: "--expires-in", value: "duration", help: "never, if not started by then", read: asDuration },
  expiresAt: { flag: "--expires-at", value: "time", help: "never, if not started by this time", read: asTime },
  uniqueKey: { flag: "--unique-key", value: "key", help: "at most one task of this name with this key" },
  onDuplicate: { flag: "--on-duplicate", value: "what", help: "if there is one: keep, replace or refuse" },
  uniqueOver: {
    flag: "--unique-over",
    value: "states",
    help: "in which it counts, as in pending,running",
    read: asList,
  },
  uniqueFor: { flag: "--unique-for", value: "duration", help: "for how long it counts", read: asDuration },
  debounce: {
    flag: "--debounce",
    value: "duration",
    help: "once none came with this key for so long",
    read: asDuration,
  },
  exclusiveKey: { flag: "--exclusive-key", value: "key", help: "never two at once with this key, anywhere" },
  exclusiveLimit: { flag: "--exclusive-limit", value: "number", help: "or so many at once", read: asNumber },
  rateLimit: { flag: "--rate-limit", value: "key=starts/duration", help: "as in mail-api=100/1m", read: asRateLimit },
  metadata: { flag: "--metadata", value: "json", help: "kept with the task and shown", read: asJson },
  id: { flag: "--id", value: "uuid", help: "the same id twice is the same task" },
};

export function enqueueFlags(): Option[] {
  return Object.values(FLAGS).map(({ flag, value, help }) => new Option(`${flag} <${value}>`, help));
}

export interface EnqueueCliOptions extends Readonly<Record<string, unknown>> {
  readonly wait?: boolean;
  readonly timeout?: string;
}

export interface EnqueueCall {
  readonly name: string;
  readonly inputJson: string;
  readonly options: InputOf<"tasks.enqueue">["options"];
  readonly timeoutMs: number | undefined;
}

export function readEnqueueCall(name: string, inputJson: string, given: EnqueueCliOptions): EnqueueCall {
  const problems = new Problems();
  isName(name, "the name", problems);
  if (asJson(inputJson) instanceof Unreadable)
    problems.add("the input", `is not JSON: quote it for the shell, as in '{"url": "a.png"}' or '"text"'`);
  const options = readOptions(given, problems);
  const refused = new Problems();
  checkEnqueueOptions(options, "", refused);
  for (const problem of refused.list) problems.add("", inFlags(problem));
  const timeoutMs =
    given.timeout === undefined ? undefined : isResultTimeout(asDuration(given.timeout), "--timeout", problems);
  if (given.timeout !== undefined && !given.wait) problems.add("--timeout", "needs --wait");
  problems.throwIfAny("The task was not enqueued: it");
  return { name, inputJson, options, timeoutMs };
}

function readOptions(given: EnqueueCliOptions, problems: Problems): Record<string, unknown> {
  const options: Record<string, unknown> = {};
  for (const [option, { flag, read = (text: string) => text }] of Object.entries<Flag>(FLAGS)) {
    const text = given[new Option(flag).attributeName()];
    const value = typeof text === "string" ? read(text) : undefined;
    if (value instanceof Unreadable) problems.add(flag, `must be ${value.hint}, not ${describe(text)}`);
    else if (value !== undefined) options[option] = value;
  }
  return options;
}

/** The API's words with the command line's names, where a problem speaks of an option: first of all, or after these words. */
function inFlags(problem: string): string {
  return problem.replace(/(^|\b(?:and|needs|with) )(\w+)/g, (all, before: string, word: string) =>
    Object.hasOwn(FLAGS, word) ? before + FLAGS[word as ApiOption].flag : all,
  );
}

class Unreadable {
  readonly hint: string;
  constructor(hint: string) {
    this.hint = hint;
  }
}

function asJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return new Unreadable("JSON");
  }
}

function asList(text: string): string[] {
  return text.split(",").map((part) => part.trim());
}

function asRateLimit(text: string): unknown {
  const at = text.lastIndexOf("=");
  const rate = at < 0 ? undefined : asRate(text.slice(at + 1));
  return rate ? { key: text.slice(0, at), ...rate } : new Unreadable("key=starts/duration, as in mail-api=100/1m");
}
