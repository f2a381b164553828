/** The one shape of every command: how it is called, what its help shows, and what it does. */
import type { Command } from "commander";
import { EXIT, type ExitCode } from "./exit-codes.ts";
import type { Screen } from "./screen.ts";

/** What every command takes. */
export interface GlobalOptions {
  readonly database?: string;
  readonly schema?: string;
}

export interface Call<Options = object> {
  /** What was given besides options, in order. */
  readonly words: readonly string[];
  readonly options: Options & GlobalOptions;
  readonly screen: Screen;
}

export interface CommandParts<Options> {
  /** The name and its arguments, such as "show <id>". */
  readonly usage: string;
  readonly description: string;
  readonly examples: readonly string[];
  readonly group?: string;
  readonly configure?: (command: Command) => void;
  /** Nothing returned means that all went well. */
  readonly run: (call: Call<Options>) => Promise<ExitCode | undefined>;
}

/** What the commands share in one run of the program. */
export interface Cli {
  readonly screen: Screen;
  end(exitCode: ExitCode): void;
}

export function addCommand<Options extends object>(cli: Cli, parent: Command, parts: CommandParts<Options>): Command {
  const command = parent.command(parts.usage).description(parts.description);
  if (parts.group) command.helpGroup(parts.group);
  parts.configure?.(command);
  showExamples(command, parts.examples);
  command.action(async () => {
    const options = command.optsWithGlobals<Options & GlobalOptions>();
    cli.screen.given = options;
    cli.end((await parts.run({ words: command.args, options, screen: cli.screen })) ?? EXIT.ok);
  });
  return command;
}

export function showExamples(command: Command, examples: readonly string[]): void {
  command.addHelpText("after", ({ command: shown }) => {
    const title = shown.createHelp().styleTitle.call(shown.configureHelp(), "Examples:");
    return ["", title, ...examples.map((example) => `  ${example}`)].join("\n");
  });
}
