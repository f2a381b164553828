/** The parser ends at the first value that an option cannot have. With this, the user is told of all of them at once. */
import { type Command, InvalidArgumentError, type Option } from "commander";

export function tellRefusedValuesTogether(program: Command): void {
  const refused: string[] = [];
  for (const command of [program, ...commandsOf(program)])
    for (const option of command.options) noteRefused(option, refused);
  program.hook("preAction", (_, command) => {
    const [first, ...rest] = refused;
    if (first) command.error([`error: option ${first}`, ...rest.map((more) => `Option ${more}`)].join("\n"));
  });
}

function commandsOf(command: Command): readonly Command[] {
  return command.commands.flatMap((each) => [each, ...commandsOf(each)]);
}

function noteRefused(option: Option, refused: string[]): void {
  const { parseArg, flags } = option;
  if (!parseArg) return;
  option.parseArg = (text, previous) => {
    try {
      return parseArg(text, previous);
    } catch (error) {
      if (!(error instanceof InvalidArgumentError)) throw error;
      refused.push(`'${flags}' argument '${text}' is invalid. ${error.message}`);
      return previous;
    }
  };
}
