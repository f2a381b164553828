/** Opens what a command needs and closes it again, whatever happens in between. */
import type { OpenOptions } from "../config/open-options.ts";
import { embeddedFolder } from "../database/open-database.ts";
import { withoutPassword } from "../database/targets.ts";
import { Everbeat } from "../everbeat.ts";
import type { Call, GlobalOptions } from "./command.ts";

/** For commands that look or give orders. */
export async function withEverbeat<T>(
  { options, screen }: Pick<Call, "options" | "screen">,
  work: (everbeat: Everbeat) => Promise<T>,
  // Somebody's look at a database must not change its schema; the embedded one is nobody else's.
  opening: Pick<OpenOptions, "migrate"> = { migrate: isEmbedded(options) },
): Promise<T> {
  const everbeat = await Everbeat.open({ ...openOptions(options, screen), ...opening, poolSize: 2 });
  screen.progress.clear();
  try {
    return await work(everbeat);
  } finally {
    await everbeat.close();
  }
}

export function openOptions(options: GlobalOptions, screen: Call["screen"]): OpenOptions {
  return {
    ...(options.database === undefined ? {} : { database: options.database }),
    ...(options.schema === undefined ? {} : { schema: options.schema }),
    log: "silent",
    onProgress: (message) => screen.progress.show(message),
  };
}

export function isEmbedded(options: GlobalOptions): boolean {
  return givenDatabase(options) === undefined;
}

export function givenDatabase(options: GlobalOptions): string | undefined {
  return options.database ?? (process.env["DATABASE_URL"] || undefined);
}

/** For people: where the database is, without its password. */
export function addressOf(options: GlobalOptions): string {
  const given = givenDatabase(options);
  return given === undefined ? `embedded PostgreSQL in ${embeddedFolder(undefined)}` : withoutPassword(given);
}
