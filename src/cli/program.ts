/** All commands, and the options that every one of them takes. */
import { Command } from "commander";
import picocolors from "picocolors";
import { VERSION } from "../version.ts";
import { type Cli, showExamples } from "./command.ts";
import { addAlerts } from "./commands/alerts.ts";
import { addDemo } from "./commands/demo.ts";
import { addDev } from "./commands/dev.ts";
import { addDoctor } from "./commands/doctor.ts";
import { addEnqueue } from "./commands/enqueue.ts";
import { addExplain } from "./commands/explain.ts";
import { addMachines } from "./commands/machines.ts";
import { addMigrate } from "./commands/migrate.ts";
import { addPostMortem } from "./commands/post-mortem.ts";
import { addPostMortems } from "./commands/post-mortems.ts";
import { addQueues } from "./commands/queues.ts";
import { addRecover } from "./commands/recover.ts";
import { addReplicas } from "./commands/replicas.ts";
import { addStale } from "./commands/stale.ts";
import { addStart } from "./commands/start.ts";
import { addStatus } from "./commands/status.ts";
import { addTasks } from "./commands/tasks.ts";

const COMMANDS = [
  ...[addDemo, addDev, addStart, addEnqueue],
  ...[addStatus, addExplain, addTasks, addQueues, addReplicas, addMachines, addStale, addRecover],
  ...[addAlerts, addPostMortems, addPostMortem],
  ...[addMigrate, addDoctor],
];

export function createProgram(cli: Cli): Command {
  const program = new Command("everbeat")
    .description("Everbeat: background work that never gets stuck.")
    .version(VERSION, "-V, --version", "show the version")
    .helpOption("-h, --help", "show this help")
    .commandsGroup("Set up:")
    .helpCommand("help [command]", "show the help of a command")
    .option("--database <url>", "the PostgreSQL to use (default: DATABASE_URL, else an embedded one)")
    .option("--schema <name>", 'the schema that holds everything (default: "everbeat")')
    .option("--json", "answer with JSON on standard output")
    .exitOverride()
    // Errors are shown by reportError, in the form that was asked for.
    .configureOutput({ outputError() {} })
    .configureHelp({
      showGlobalOptions: true,
      // Where there is no terminal, or NO_COLOR is set, commander takes the colour out again.
      styleTitle: (title) => picocolors.createColors(true).bold(title),
      styleCommandText: (text) => picocolors.createColors(true).cyan(text),
    });
  for (const add of COMMANDS) add(cli, program);
  showExamples(program, [
    "everbeat demo                                   see it survive a killed worker",
    "everbeat start tasks.ts                         run the tasks that a file exports",
    `everbeat enqueue resize '{"url": "a.png"}'      put one in`,
    "everbeat status                                 the fleet at a glance",
    "everbeat explain TASK                           why a task is where it is",
  ]);
  return program;
}
