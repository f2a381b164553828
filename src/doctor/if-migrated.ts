/** For checks of what only a schema of this version has. */
import type { Database } from "../database/database.ts";
import { assertSchemaFits } from "../database/migrate.ts";
import { EverbeatError } from "../errors.ts";
import { type Finding, skipped } from "./finding.ts";

export function ifMigrated(
  name: string,
  check: (database: Database) => Promise<Finding>,
): (database: Database) => Promise<Finding> {
  return async (database) => {
    try {
      await assertSchemaFits(database);
    } catch (error) {
      if (!(error instanceof EverbeatError)) throw error;
      return skipped(name, "the schema is not that of this version");
    }
    return check(database);
  };
}
