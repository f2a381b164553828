/** What is checked from here before a database can be asked: this program, the embedded server, the way to the database. */
import { embeddedFolder } from "../../database/open-database.ts";
import { type Finding, skipped } from "../../doctor/finding.ts";
import { type Asking, asking } from "../asking.ts";
import type { Call } from "../command.ts";
import { addressOf, isEmbedded } from "../open-for-command.ts";
import { checkDatabase, unreachable } from "./check-database.ts";
import { checkEmbedded } from "./check-embedded.ts";
import { checkVersions } from "./check-versions.ts";

/** Then, with a database that answers, everything that is checked there. */
export async function examine(call: Pick<Call, "options" | "screen">): Promise<readonly Finding[]> {
  const { options, screen } = call;
  const embedded = await checkEmbedded({ folder: embeddedFolder(undefined), isNeeded: isEmbedded(options) });
  const before = [checkVersions(), embedded.finding];
  if (embedded.obstacle !== undefined)
    return [...before, skipped("database", embedded.obstacle), ...(await skipAll(embedded.obstacle))];

  screen.progress.show("connecting to the database");
  let isReached = false;
  const examineThere = async (asked: Asking) => {
    const finding = await checkDatabase(asked, addressOf(options));
    isReached = true;
    const progress = ({ step }: { readonly step?: string }) => screen.progress.show(`checking ${step}`);
    const { findings } = await asked.ask("doctor", {}, { progress });
    return [...before, finding, ...findings];
  };
  try {
    return await asking(call, examineThere, { migrate: "later" });
  } catch (error) {
    if (isReached) throw error;
    const found = [checkVersions(), embedded.ifNotStarted ?? embedded.finding, unreachable(error as Error)];
    return [...found, ...(await skipAll("the database cannot be reached"))];
  }
}

async function skipAll(because: string): Promise<readonly Finding[]> {
  // Only here: the commands that run tasks do not pay for the checks.
  const { skipDatabase } = await import("../../doctor/examine.ts");
  return skipDatabase(because);
}
