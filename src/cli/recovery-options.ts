/** The recovery settings of a worker as one option of the command line: a profile's name, or `name=value` pairs. */
import { InvalidArgumentError } from "commander";
import { Problems } from "../config/problems.ts";
import { checkRecovery, type RecoveryOptions } from "../config/recovery-options.ts";
import { nameValuePairs } from "./name-value-pairs.ts";

export function recoveryOptions(text: string): RecoveryOptions {
  const options = nameValuePairs(text, "profile");
  const problems = new Problems();
  checkRecovery(options, problems, "");
  if (!problems.isEmpty) throw new InvalidArgumentError(`${problems.list.join("; ")}.`);
  return options;
}
