/** Resolves the alerts that are over and that nobody else has resolved. A part of each sweep. */
import type { Database } from "../database/database.ts";
import { isAboutSomeRows } from "../database/transient.ts";
import { listEndlessAlerts, type OpenAlert, resolveEndedAlerts } from "../sql/alerts.ts";
import type { PassedBy } from "./passed-by.ts";

/** Where the cause of one cannot be looked at, or one cannot be written, the others are resolved all the same. */
export async function endAlerts(database: Database, passedBy: PassedBy): Promise<void> {
  await passedBy.attempt("resolving alerts that are over", async () => {
    try {
      await resolveEndedAlerts(database);
      await passedBy.settleAll();
    } catch (error) {
      if (!isAboutSomeRows(error)) throw error;
      await endInHalves(database, passedBy);
    }
  });
}

async function endInHalves(database: Database, passedBy: PassedBy): Promise<void> {
  const whatOf = ({ id, kind, subject }: OpenAlert) => `resolving alert ${id} (${kind}: ${subject})`;
  await passedBy.inHalves(await listEndlessAlerts(database), whatOf, async (some) => {
    await resolveEndedAlerts(database, some);
    return [];
  });
  await passedBy.settle();
}
