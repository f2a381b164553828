/** All commands of the command line, by their words: `["queues", "pause"]`. */
import type { Command } from "commander";
import type { Cli } from "../../src/cli/command.ts";
import { createProgram } from "../../src/cli/program.ts";

export function allCommands(): readonly (readonly string[])[] {
  const below = (command: Command, words: readonly string[]): (readonly string[])[] =>
    command.commands.flatMap((one) => [[...words, one.name()], ...below(one, [...words, one.name()])]);
  // Nothing of it is run.
  return below(createProgram({} as Cli), []);
}
