/** `everbeat dev`: an embedded server and a worker with example tasks, to try the other commands on. */
import type { Command } from "commander";
import { joinEmbeddedServer } from "../../database/embedded/embedded-server.ts";
import { embeddedFolder } from "../../database/open-database.ts";
import { Everbeat } from "../../everbeat.ts";
import type { LogLevel } from "../../log.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import { EXAMPLE_TASKS, enqueueNowAndThen } from "../example-tasks.ts";
import type { ExitCode } from "../exit-codes.ts";
import { openOptions } from "../open-for-command.ts";
import { runWorker } from "../run-worker.ts";
import type { Screen } from "../screen.ts";
import { typedCommand } from "../typed-command.ts";
import { createWorkLog } from "../work-log.ts";
import { addLogLevel } from "../work-options.ts";

interface DevOptions {
  readonly logLevel: LogLevel;
}

export function addDev(cli: Cli, program: Command): void {
  addCommand<DevOptions>(cli, program, {
    usage: "dev",
    description: "an embedded PostgreSQL and a worker with example tasks, until stopped",
    group: "Try it:",
    examples: ["everbeat dev", `everbeat enqueue hello '{"name": "you"}' --wait     in another terminal`],
    configure: (command) => addLogLevel(command, "debug"),
    run: dev,
  });
}

async function dev({ options, screen }: Call<DevOptions>): Promise<ExitCode> {
  screen.outliveReaders();
  // Only a database that is named on the command line: examples have no business in the one that DATABASE_URL means.
  const server = options.database === undefined ? await joinOwnServer(screen) : undefined;
  try {
    const everbeat = await Everbeat.open({
      ...openOptions(options, screen),
      ...(server ? { database: server.url } : {}),
      log: createWorkLog(screen, options.logLevel),
      runsServices: true,
    });
    screen.progress.clear();
    if (!screen.isJson) welcome(screen);
    return await runWorker({
      everbeat,
      tasks: EXAMPLE_TASKS,
      options: {},
      screen,
      beside: (signal) => enqueueNowAndThen(everbeat, signal),
    });
  } finally {
    await server?.close();
  }
}

async function joinOwnServer(screen: Screen): ReturnType<typeof joinEmbeddedServer> {
  return joinEmbeddedServer({
    folder: embeddedFolder(undefined),
    onProgress: (message) => screen.progress.show(message),
  });
}

function welcome({ say, colours, given }: Screen): void {
  const names = EXAMPLE_TASKS.map((task) => task.name).join(", ");
  say(`${colours.bold("Everbeat dev")}  a worker with the example tasks ${names}`);
  say(colours.dim("In another terminal of this folder:"));
  say(`  ${typedCommand(`enqueue hello '{"name": "you"}' --wait`, given)}`);
  say(`  ${typedCommand("status", given)}`);
  say(colours.dim("Ctrl-C stops it. What is in the database stays for the next time."));
  say();
}
