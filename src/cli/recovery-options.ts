/** The recovery settings of a worker as one option of the command line: a profile's name, or `name=value` pairs. */
import { InvalidArgumentError } from "commander";
import { Problems } from "../config/problems.ts";
import { checkRecovery, type RecoveryOptions } from "../config/recovery-options.ts";

export function recoveryOptions(text: string): RecoveryOptions {
  const options: Record<string, unknown> = {};
  for (const part of text.split(",").map((each) => each.trim())) {
    const [name = "", value] = part.split("=", 2);
    if (value === undefined) options["profile"] = name;
    else put(options, name.split("."), toValue(value));
  }
  const problems = new Problems();
  checkRecovery(options, problems, "");
  if (!problems.isEmpty) throw new InvalidArgumentError(`${problems.list.join("; ")}.`);
  return options;
}

/** `massDeath.hold=30s` is an option within an option. */
function put(options: Record<string, unknown>, [first = "", ...rest]: readonly string[], value: unknown): void {
  if (rest.length === 0) {
    options[first] = value;
    return;
  }
  options[first] ??= {};
  put(options[first] as Record<string, unknown>, rest, value);
}

function toValue(text: string): unknown {
  if (text === "true" || text === "false") return text === "true";
  return /^\d+(\.\d+)?$/.test(text) ? Number(text) : text;
}
