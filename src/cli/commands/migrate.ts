/** `everbeat migrate`: the schema, brought up to this version. */
import { type Command, Option } from "commander";
import { checkOpen } from "../../config/open-options.ts";
import { migrationScript } from "../../database/migrate.ts";
import { readMigrations } from "../../database/migrations.ts";
import { asking } from "../asking.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import { EXIT, type ExitCode } from "../exit-codes.ts";
import { openOptions } from "../open-for-command.ts";
import type { Screen } from "../screen.ts";

interface MigrateOptions {
  readonly print?: boolean;
  readonly dryRun?: boolean;
}

export function addMigrate(cli: Cli, program: Command): void {
  addCommand<MigrateOptions>(cli, program, {
    usage: "migrate",
    description: "bring the schema up to date; safe while workers run",
    group: "Set up:",
    examples: [
      "everbeat migrate",
      "everbeat migrate --dry-run",
      "everbeat migrate --database postgres://admin@db.example.com/app --schema jobs",
      "everbeat migrate --print > everbeat.sql     needs no database",
    ],
    configure: (command) =>
      command
        .option("--dry-run", "show what would be done, and do nothing")
        .addOption(new Option("--print", "show the SQL of a new schema, and run nothing").conflicts("dryRun")),
    run(call) {
      if (call.options.print) return printScript(call);
      return call.options.dryRun ? showState(call) : runMigrations(call);
    },
  });
}

async function printScript({ options, screen }: Call<MigrateOptions>): Promise<undefined> {
  const { schema } = checkOpen(openOptions(options, screen));
  const sql = migrationScript(schema);
  const migrations = readMigrations().map((migration) => migration.name);
  screen.answer({ schema, migrations, sql }, () => sql.trimEnd().split("\n"));
  return undefined;
}

/** Fails where the schema cannot be worked with and migrations would not help. */
async function showState(call: Call<MigrateOptions>): Promise<ExitCode> {
  const { screen } = call;
  return asking(
    call,
    async ({ ask }) => {
      const state = await ask("schema.show", {});
      const { schema, pending, outdated, problem, version, needsMigration } = state;
      const steps = stepWords(pending, outdated);
      const isHelpless = problem !== null && !needsMigration;
      screen.answer(state, () => {
        if (isHelpless) return problem.message.split("\n");
        if (steps.length === 0) return `The schema "${schema}" is up to date, at version ${version}.`;
        const marks = steps.map((step) => `${screen.colours.dim("–")} ${step}`);
        return [...marks, `The schema "${schema}" is at version ${version}. Nothing was done.`];
      });
      return isHelpless ? EXIT.failed : EXIT.ok;
    },
    { migrate: "later" },
  );
}

async function runMigrations(call: Call<MigrateOptions>): Promise<undefined> {
  const { screen } = call;
  const progress = ({ step }: { readonly step?: string }) => screen.progress.show(`making ${step}`);
  await asking(
    call,
    async ({ ask }) => {
      const report = await ask("schema.migrate", {}, { progress });
      screen.progress.clear();
      const steps = stepWords(report.applied, report.replaced);
      screen.answer(report, () => {
        const state = steps.length === 0 ? "was up to date already" : "is up to date";
        return [...done(steps, screen), `The schema "${report.schema}" ${state}, at version ${report.version}.`];
      });
    },
    { migrate: "later" },
  );
  return undefined;
}

function done(steps: readonly string[], { colours }: Screen): string[] {
  return steps.map((step) => `${colours.green("✓")} ${step}`);
}

function stepWords(migrations: readonly string[], routines: number): string[] {
  const words = routines === 1 ? "1 function, view or trigger" : `${routines} functions, views and triggers`;
  return routines === 0 ? [...migrations] : [...migrations, words];
}
