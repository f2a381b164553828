/** Commands as they are typed to act on the same database: a line that is printed here may be run in another folder. Pure. */
import { withoutCredential } from "../database/targets.ts";
import type { GlobalOptions } from "./command.ts";

export const START_WORDS = "start tasks.ts";

/** What comes from the environment or from this folder is so for the next command too. A password is not printed: the line shows how it is given. */
export function typedCommand(words: string, { database, schema }: GlobalOptions): string {
  const shown = database === undefined ? undefined : withoutCredential(database);
  const secret = shown === database ? "" : "PGPASSWORD=… ";
  return `${secret}everbeat ${words}${option("database", shown)}${option("schema", schema)}`;
}

function option(name: string, value: string | undefined): string {
  return value === undefined ? "" : ` --${name} ${quoted(value)}`;
}

/** For a shell. Ids and the names of tasks and queues need no quotes; what is on record may have been written by others. */
export function quoted(word: string): string {
  return /^[\w./:@%+=,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
