/** All checks in order; those that need a database only where there is one. */
import { checkOpen } from "../../config/open-options.ts";
import { embeddedFolder, openDatabase } from "../../database/open-database.ts";
import type { GlobalOptions } from "../command.ts";
import { addressOf, isEmbedded } from "../open-for-command.ts";
import { checkClock } from "./check-clock.ts";
import { checkDatabase } from "./check-database.ts";
import { checkEmbedded } from "./check-embedded.ts";
import { checkFlapping } from "./check-flapping.ts";
import { checkHearts } from "./check-hearts.ts";
import { checkPooler } from "./check-pooler.ts";
import { checkReaper } from "./check-reaper.ts";
import { checkRecoverySwitches } from "./check-recovery.ts";
import { checkRights } from "./check-rights.ts";
import { checkSchema } from "./check-schema.ts";
import { checkServer } from "./check-server.ts";
import { checkSettings } from "./check-settings.ts";
import { checkTasks } from "./check-tasks.ts";
import { checkVersions } from "./check-versions.ts";
import { type Finding, skipped } from "./finding.ts";
import { ifMigrated } from "./if-migrated.ts";

const INSUFFICIENT_PRIVILEGE = "42501";

/** Each gets a database that answers. */
const DATABASE_CHECKS = {
  server: checkServer,
  rights: checkRights,
  schema: checkSchema,
  pooler: checkPooler,
  settings: checkSettings,
  reaper: ifMigrated("reaper", checkReaper),
  recovery: ifMigrated("recovery", checkRecoverySwitches),
  hearts: ifMigrated("hearts", checkHearts),
  flapping: ifMigrated("flapping", checkFlapping),
  tasks: ifMigrated("tasks", checkTasks),
  clock: checkClock,
};

export async function examine(options: GlobalOptions, onProgress: (doing: string) => void): Promise<Finding[]> {
  const settings = checkOpen({
    ...(options.database === undefined ? {} : { database: options.database }),
    ...(options.schema === undefined ? {} : { schema: options.schema }),
    onProgress,
    poolSize: 2,
  });
  const embedded = await checkEmbedded({ folder: embeddedFolder(undefined), isNeeded: isEmbedded(options) });
  const before = [checkVersions(), embedded.finding];
  if (embedded.obstacle !== undefined) return [...before, ...skipAll(["database"], embedded.obstacle)];

  onProgress("connecting to the database");
  const { finding, database } = await checkDatabase(() => openDatabase(settings), addressOf(options));
  if (database === undefined) {
    const found = [checkVersions(), embedded.ifNotStarted ?? embedded.finding, finding];
    return [...found, ...skipAll([], "the database cannot be reached")];
  }
  try {
    const findings: Finding[] = [];
    for (const [name, check] of Object.entries(DATABASE_CHECKS)) {
      onProgress(`checking ${name}`);
      const lacksRights = findings.some((found) => found.check === "rights" && found.mark === "wrong");
      findings.push(await orItsFailure(name, () => check(database), lacksRights));
    }
    return [...before, finding, ...findings];
  } finally {
    await database.close();
  }
}

function skipAll(checks: readonly string[], because: string): Finding[] {
  return [...checks, ...Object.keys(DATABASE_CHECKS)].map((check) => skipped(check, because));
}

/**
 * A check that cannot be made is itself something that is wrong, and no reason to leave out the others. `lacksRights`: the check of the
 * rights has said already what is missing.
 */
async function orItsFailure(check: string, run: () => Promise<Finding>, lacksRights: boolean): Promise<Finding> {
  try {
    return await run();
  } catch (error) {
    if (lacksRights && (error as { code?: unknown }).code === INSUFFICIENT_PRIVILEGE)
      return skipped(check, "this role has not the right to look (see rights)");
    return { check, mark: "wrong", found: `could not be checked: ${(error as Error).message}` };
  }
}
