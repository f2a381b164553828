/** `everbeat migrate`: the schema, brought up to this version. */
import type { Command } from "commander";
import { checkOpen } from "../../config/open-options.ts";
import { migrate, migrationScript } from "../../database/migrate.ts";
import { readMigrations } from "../../database/migrations.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import { openOptions, withDatabase } from "../open-for-command.ts";

interface MigrateOptions {
  readonly print?: boolean;
}

export function addMigrate(cli: Cli, program: Command): void {
  addCommand<MigrateOptions>(cli, program, {
    usage: "migrate",
    description: "bring the schema up to date; safe while workers run",
    group: "Set up:",
    examples: [
      "everbeat migrate",
      "everbeat migrate --database postgres://admin@db.example.com/app --schema jobs",
      "everbeat migrate --print > everbeat.sql     needs no database",
    ],
    configure: (command) => command.option("--print", "show the SQL of a new schema, and run nothing"),
    run: (call) => (call.options.print ? printScript(call) : runMigrations(call)),
  });
}

async function printScript({ options, screen }: Call<MigrateOptions>): Promise<undefined> {
  const { schema } = checkOpen(openOptions(options, screen));
  const sql = migrationScript(schema);
  const migrations = readMigrations().map((migration) => migration.name);
  screen.answer({ schema, migrations, sql }, () => sql.trimEnd().split("\n"));
  return undefined;
}

async function runMigrations(call: Call<MigrateOptions>): Promise<undefined> {
  const { screen } = call;
  const { colours } = screen;
  await withDatabase(call, async (database) => {
    const onStep = (step: string) => screen.isJson || screen.say(`${colours.green("✓")} ${step}`);
    const report = await migrate(database, { onStep });
    screen.answer(report, () => {
      const state = report.applied.length + report.replaced === 0 ? "was up to date already" : "is up to date";
      return `The schema "${report.schema}" ${state}, at version ${report.version}.`;
    });
  });
  return undefined;
}
