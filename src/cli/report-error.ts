/** An error as the user is told it: what happened and what to do, without a stack where we know what happened. */
import { CommanderError } from "commander";
import { InvalidOptionsError } from "../config/problems.ts";
import { isOutage } from "../database/transient.ts";
import { EverbeatError } from "../errors.ts";
import { OrderInterruptedError, UsageError } from "./errors.ts";
import { EXIT, type ExitCode } from "./exit-codes.ts";
import { linesOf } from "./printable.ts";
import type { Screen } from "./screen.ts";
import { quoted } from "./table.ts";

interface Told {
  readonly exitCode: ExitCode;
  readonly code: string;
  readonly message: string;
  /** Only for what should not have happened: it belongs in a bug report. */
  readonly stack?: string | undefined;
}

export function reportError(error: unknown, screen: Screen): ExitCode {
  // Help and version were asked for, and have been shown.
  if (error instanceof CommanderError && error.exitCode === 0) return EXIT.ok;
  const { exitCode, code, message, stack } = tell(error);
  screen.progress.clear();
  // On one line, since it may be the last of many.
  if (screen.isJson) screen.answerLine(`${JSON.stringify({ error: { code, message } })}\n`);
  // A group of commands without its command shows its help, which says it all.
  else if (!isBareHelp(error)) {
    const [first = "", ...rest] = linesOf(message);
    screen.remark(`${screen.errorColours.red("✗")} ${first}`);
    // Indented, so that none of them looks like a line of its own.
    for (const line of rest) screen.remark(line.startsWith("  ") ? line : `  ${line}`);
  }
  for (const line of stack ? quoted(stack, { colours: screen.errorColours }) : []) screen.remark(line);
  return exitCode;
}

function tell(error: unknown): Told {
  if (error instanceof CommanderError) return { exitCode: EXIT.usage, code: "USAGE", message: usageMessage(error) };
  if (error instanceof UsageError || error instanceof InvalidOptionsError)
    return { exitCode: EXIT.usage, code: error.code, message: error.message };
  if (error instanceof OrderInterruptedError)
    return { exitCode: EXIT.interrupted, code: error.code, message: error.message };
  if (error instanceof EverbeatError) return { exitCode: EXIT.failed, code: error.code, message: error.message };
  if (isOutage(error)) {
    const message = `The database was lost: ${(error as Error).message}. Try again when it is back; \`everbeat doctor\` shows whether it is.`;
    return { exitCode: EXIT.failed, code: "DATABASE_LOST", message };
  }
  if (isDatabaseRefusal(error)) {
    const message = `PostgreSQL refused (${error.code}): ${error.message}. Run \`everbeat doctor\` to see what is missing.`;
    return { exitCode: EXIT.failed, code: "DATABASE_REFUSED", message };
  }
  const message = `Something went wrong that should not have: ${error instanceof Error ? error.message : String(error)}`;
  return { exitCode: EXIT.failed, code: "INTERNAL", message, stack: error instanceof Error ? error.stack : undefined };
}

function usageMessage(error: CommanderError): string {
  if (isBareHelp(error)) return "A command is missing. Add --help to see which there are.";
  const text = error.message.replace(/^error: /, "").replace("\n(", " (");
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}\nAdd --help to see what can be given.`;
}

function isBareHelp(error: unknown): boolean {
  return error instanceof CommanderError && error.code === "commander.help";
}

/** The driver's errors from the server carry the server's severity. */
function isDatabaseRefusal(error: unknown): error is Error & { code: string } {
  return error instanceof Error && "severity" in error && typeof (error as { code?: unknown }).code === "string";
}
