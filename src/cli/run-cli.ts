/** One run of the command line: arguments in, an exit code out. */
import { EXIT, type ExitCode } from "./exit-codes.ts";
import { createProgram } from "./program.ts";
import { tellRefusedValuesTogether } from "./refused-values.ts";
import { reportError } from "./report-error.ts";
import { createScreen, type Screen } from "./screen.ts";

export async function runCli(argv: readonly string[]): Promise<ExitCode> {
  // Read ahead of the parser: also a command line that it refuses is answered in the form that was asked for.
  const screen = createScreen({ isJson: argv.includes("--json") });
  const exitCode = await run(argv, screen);
  const isAnswered = await screen.flushed();
  return exitCode === EXIT.ok && !isAnswered ? EXIT.failed : exitCode;
}

async function run(argv: readonly string[], screen: Screen): Promise<ExitCode> {
  let exitCode: ExitCode = EXIT.ok;
  const program = createProgram({
    screen,
    end(code) {
      exitCode = code;
    },
  });
  tellRefusedValuesTogether(program);
  try {
    if (argv.length === 0) program.outputHelp();
    else await program.parseAsync(argv, { from: "user" });
    return exitCode;
  } catch (error) {
    return reportError(error, screen);
  } finally {
    screen.progress.clear();
  }
}
