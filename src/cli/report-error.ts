/** An error as the user is told it: what happened and what to do, without a stack where we know what happened. */
import { CommanderError } from "commander";
import { type ToldError, toldError } from "../told-error.ts";
import { adviceText } from "./advice-text.ts";
import { OrderInterruptedError } from "./errors.ts";
import { EXIT, EXIT_OF_KINDS, type ExitCode } from "./exit-codes.ts";
import { linesOf } from "./printable.ts";
import type { Screen } from "./screen.ts";
import { quoted } from "./table.ts";

export function reportError(error: unknown, screen: Screen): ExitCode {
  // Help and version were asked for, and have been shown.
  if (error instanceof CommanderError && error.exitCode === 0) return EXIT.ok;
  const { kind, code, message, advice, stack } = tell(error);
  screen.progress.clear();
  // On one line, since it may be the last of many.
  if (screen.isJson) screen.answerLine(`${JSON.stringify({ error: { code, kind, message, advice } })}\n`);
  // A group of commands without its command shows its help, which says it all.
  else if (!isBareHelp(error)) {
    const [first = "", ...rest] = linesOf(message);
    screen.remark(`${screen.errorColours.red("✗")} ${first}`);
    // Indented, so that none of them looks like a line of its own.
    for (const line of rest) screen.remark(line.startsWith("  ") ? line : `  ${line}`);
    const look = { colours: screen.errorColours, width: screen.width, given: screen.given };
    for (const line of advice.flatMap((each) => adviceText(each, look))) screen.remark(line);
  }
  for (const line of stack ? quoted(stack, { colours: screen.errorColours }) : []) screen.remark(line);
  return error instanceof OrderInterruptedError ? EXIT.interrupted : EXIT_OF_KINDS[kind];
}

function tell(error: unknown): ToldError {
  if (error instanceof CommanderError)
    return { kind: "bad-request", code: "USAGE", message: usageMessage(error), advice: [] };
  return toldError(error);
}

function usageMessage(error: CommanderError): string {
  if (isBareHelp(error)) return "A command is missing. Add --help to see which there are.";
  const text = error.message.replace(/^error: /, "").replace("\n(", " (");
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}\nAdd --help to see what can be given.`;
}

function isBareHelp(error: unknown): boolean {
  return error instanceof CommanderError && error.code === "commander.help";
}
