/** `everbeat start`: a worker for the tasks that files export, or several that are supervised. */
import type { Command } from "commander";
import type { OpenOptions } from "../../config/open-options.ts";
import { Everbeat } from "../../everbeat.ts";
import { type Logger, withFields } from "../../log.ts";
import { linkToSupervisor, type SupervisorLink } from "../../supervisor/supervised.ts";
import { DEFAULT_ABORT_GRACE_MS, DEFAULT_SHUTDOWN_GRACE_MS } from "../../worker/options.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import type { ExitCode } from "../exit-codes.ts";
import { loadTasks } from "../load-tasks.ts";
import { openOptions } from "../open-for-command.ts";
import { runSupervisor } from "../run-supervisor.ts";
import { runWorker } from "../run-worker.ts";
import { addSuperviseOptions, type SuperviseCliOptions, toRestartPolicy } from "../supervise-options.ts";
import { createWorkLog } from "../work-log.ts";
import { addWorkOptions, toWorkOptions, type WorkCliOptions } from "../work-options.ts";

interface StartOptions extends WorkCliOptions, SuperviseCliOptions {
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
      "everbeat start tasks.ts --processes 4",
      "everbeat start tasks.ts --recovery claimed-and-running",
      "everbeat start tasks.ts --recovery runningStaleThreshold=1m,autoFailStaleRunning=false",
    ],
    configure(command) {
      command.argument("<tasks-file...>", "files that export tasks made by defineTask: .ts, .mts, .js, .mjs");
      addWorkOptions(command);
      command.option("--no-migrate", "refuse an outdated schema instead of bringing it up to date");
      addSuperviseOptions(command);
    },
    run: start,
  });
}

async function start(call: Call<StartOptions>): Promise<ExitCode> {
  call.screen.outliveReaders();
  const link = linkToSupervisor();
  const restart = toRestartPolicy(call.options);
  const { processes, shutdownGrace, abortGrace, logLevel } = call.options;
  if (processes === undefined || link) return work(call, link);
  const log = createWorkLog(call.screen, logLevel);
  return runSupervisor({
    ...{ log, screen: call.screen, files: call.words, processes, restart },
    // Its children run them too. The supervisor does in case none of its children is left.
    everbeat: await open(call, log, { runsServices: true }),
    gracesMs: (shutdownGrace ?? DEFAULT_SHUTDOWN_GRACE_MS) + (abortGrace ?? DEFAULT_ABORT_GRACE_MS),
  });
}

const SUPERVISOR_GONE =
  "the supervisor of this worker is gone, and nobody would start the worker again: it ends what it runs, and leaves";

async function work(call: Call<StartOptions>, link: SupervisorLink | undefined): Promise<ExitCode> {
  const { words, options, screen } = call;
  const onSlow = (file: string) =>
    screen.remark(
      screen.errorColours.yellow(
        `! ${file} is still being loaded. If that goes on, a top-level await in it or in what it imports does not end.`,
      ),
    );
  const loading = loadTasks(words, { onSlow });
  const tasks = await (link ? link.asleep(loading) : loading).catch((error: unknown) => {
    link?.refuse();
    throw error;
  });
  const log = createWorkLog(screen, options.logLevel);
  const ownLog = link ? withFields(log, { child: link.child }) : log;
  void link?.orphaned.then(() => ownLog.warn({ event: "supervisor.gone" }, SUPERVISOR_GONE));
  const everbeat = await open(call, ownLog);
  try {
    return await runWorker({ everbeat, tasks, options: toWorkOptions(options), screen, link });
  } catch (error) {
    await everbeat.close({ now: true });
    throw error;
  }
}

async function open({ options, screen }: Call<StartOptions>, log: Logger, more: OpenOptions = {}): Promise<Everbeat> {
  const everbeat = await Everbeat.open({
    ...openOptions(options, screen),
    ...more,
    ...{ log, migrate: options.migrate },
    ...(options.recovery === undefined ? {} : { recovery: options.recovery }),
  });
  screen.progress.clear();
  return everbeat;
}
