/** The options of a worker's runners as one option of the command line: `name=value` pairs. */
import { InvalidArgumentError } from "commander";
import { Problems } from "../config/problems.ts";
import { isRunnerOptions, type RunnerOptions } from "../runner/runner-options.ts";
import { nameValuePairs } from "./name-value-pairs.ts";

export function runnerOptions(text: string): RunnerOptions {
  const options = nameValuePairs(text);
  const problems = new Problems();
  isRunnerOptions(options, "", problems);
  if (!problems.isEmpty) throw new InvalidArgumentError(`${problems.list.join("; ")}.`);
  return options;
}
