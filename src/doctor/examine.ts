/** What is wrong with the database and with the fleet in it, and what to do about it: all checks, in order. */
import type { Database } from "../database/database.ts";
import { isRightMissing } from "../database/transient.ts";
import { checkClock } from "./check-clock.ts";
import { checkFlapping } from "./check-flapping.ts";
import { checkHearts } from "./check-hearts.ts";
import { checkPooler } from "./check-pooler.ts";
import { checkReaper } from "./check-reaper.ts";
import { checkRecoverySwitches } from "./check-recovery.ts";
import { checkRights } from "./check-rights.ts";
import { checkSchema } from "./check-schema.ts";
import { checkServer } from "./check-server.ts";
import { checkServices } from "./check-services.ts";
import { checkSettings } from "./check-settings.ts";
import { checkTasks } from "./check-tasks.ts";
import { type Finding, skipped, wrong } from "./finding.ts";
import { ifMigrated } from "./if-migrated.ts";

/** Each gets a database that answers. */
const CHECKS: Readonly<Record<string, (database: Database) => Promise<Finding>>> = {
  server: checkServer,
  rights: checkRights,
  schema: checkSchema,
  pooler: checkPooler,
  settings: checkSettings,
  reaper: ifMigrated("reaper", checkReaper),
  services: ifMigrated("services", checkServices),
  recovery: ifMigrated("recovery", checkRecoverySwitches),
  hearts: ifMigrated("hearts", checkHearts),
  flapping: ifMigrated("flapping", checkFlapping),
  tasks: ifMigrated("tasks", checkTasks),
  clock: checkClock,
};

/** Called before each check. If it throws, the examination ends there. */
export type ExaminationProgress = (reached: {
  readonly done: number;
  readonly of: number;
  readonly step: string;
}) => void;

export async function examineDatabase(
  database: Database,
  onProgress: ExaminationProgress = () => {},
): Promise<Finding[]> {
  const findings: Finding[] = [];
  const checks = Object.entries(CHECKS);
  for (const [done, [name, check]] of checks.entries()) {
    onProgress({ done, of: checks.length, step: name });
    const lacksRights = findings.some((found) => found.check === "rights" && found.mark === "wrong");
    findings.push(await orItsFailure(name, () => check(database), lacksRights));
  }
  return findings;
}

/** What is said of all of them where there is no database to check. */
export function skipDatabase(because: string): Finding[] {
  return Object.keys(CHECKS).map((check) => skipped(check, because));
}

/**
 * A check that cannot be made is itself something that is wrong, and no reason to leave out the others. `lacksRights`: the check of the
 * rights has said already what is missing.
 */
async function orItsFailure(check: string, run: () => Promise<Finding>, lacksRights: boolean): Promise<Finding> {
  try {
    return await run();
  } catch (error) {
    if (lacksRights && isRightMissing(error)) return skipped(check, "this role has not the right to look (see rights)");
    return wrong(check, `could not be checked: ${(error as Error).message}`);
  }
}
