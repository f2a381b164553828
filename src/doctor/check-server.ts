/** Whether the server is new enough. */
import type { Database } from "../database/database.ts";
import { readServerVersion } from "../sql/migrations.ts";
import { type Finding, good, wrong } from "./finding.ts";

const OLDEST = 140_000;

export async function checkServer(database: Database): Promise<Finding> {
  const { text, number } = await readServerVersion(database);
  if (number >= OLDEST) return good("server", `PostgreSQL ${text}`);
  return wrong("server", `PostgreSQL ${text} is too old`, "Use PostgreSQL 14 or newer.");
}
