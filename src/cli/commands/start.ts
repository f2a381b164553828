/** `everbeat start`: a worker for the tasks that files export. */
import type { Command } from "commander";
import { Everbeat } from "../../everbeat.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import type { ExitCode } from "../exit-codes.ts";
import { loadTasks } from "../load-tasks.ts";
import { openOptions } from "../open-for-command.ts";
import { runWorker } from "../run-worker.ts";
import { createWorkLog } from "../work-log.ts";
import { addWorkOptions, toWorkOptions, type WorkCliOptions } from "../work-options.ts";

interface StartOptions extends WorkCliOptions {
  readonly migrate: boolean;
}

export function addStart(cli: Cli, program: Command): void {
  addCommand<StartOptions>(cli, program, {
    usage: "start",
    description: "run the tasks that files export, until SIGTERM or Ctrl-C",
    group: "Work:",
    examples: [
      "everbeat start tasks.ts",
      "everbeat start src/mail.ts src/images.ts --concurrency 20 --queues mail,images",
      "everbeat start dist/tasks.js --shutdown-grace 2m --json",
      "everbeat start tasks.ts --recovery claimed-and-running",
      "everbeat start tasks.ts --recovery runningStaleThreshold=1m,autoFailStaleRunning=false",
    ],
    configure(command) {
      command.argument("<tasks-file...>", "files that export tasks made by defineTask: .ts, .mts, .js, .mjs");
      addWorkOptions(command);
      command.option("--no-migrate", "refuse an outdated schema instead of bringing it up to date");
    },
    run: start,
  });
}

async function start({ words, options, screen }: Call<StartOptions>): Promise<ExitCode> {
  const tasks = await loadTasks(words);
  const log = createWorkLog(screen, options.logLevel);
  const everbeat = await Everbeat.open({
    ...openOptions(options, screen),
    log,
    migrate: options.migrate,
    ...(options.recovery === undefined ? {} : { recovery: options.recovery }),
  });
  screen.progress.clear();
  try {
    return await runWorker({ everbeat, tasks, options: toWorkOptions(options), screen });
  } catch (error) {
    await everbeat.close({ now: true });
    throw error;
  }
}
