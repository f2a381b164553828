/** Upkeep where all of it in one statement has failed: part by part, and where a part fails on one of its rows, without that row. */
import type { Database } from "../database/database.ts";
import { inHalves } from "../database/in-halves.ts";
import type { PassedBy } from "../recovery/passed-by.ts";
import {
  expireTasks,
  findOverdueCancels,
  findOverdueTasks,
  forceCancels,
  purgeIfDue,
  type Retention,
  retireLanes,
  type UpkeepReport,
  unparkEveryKind,
} from "../sql/upkeep.ts";

interface Parts {
  readonly database: Database;
  readonly retention: Retention;
  readonly passedBy: PassedBy;
  readonly batch: number;
}

export async function runUpkeepInParts({ database, retention, passedBy, batch }: Parts): Promise<UpkeepReport> {
  const part = async (what: string, act: () => Promise<number>) => (await passedBy.attempt(what, act)) ?? 0;
  const each = async <T>(
    all: readonly T[],
    whatOf: (one: T) => string,
    act: (some: readonly T[]) => Promise<number>,
  ) => {
    const counts = await inHalves(
      all.filter((one) => !passedBy.isResting(whatOf(one))),
      async (some) => [await act(some)],
      async (one, error) => {
        await passedBy.tell(whatOf(one), error);
        return [];
      },
    );
    return counts.reduce((sum, count) => sum + count, 0);
  };
  await passedBy.attempt("taking out empty lanes", () => retireLanes(database));
  return {
    cancelled: await part("forcing overdue cancellations", async () =>
      each(
        await findOverdueCancels(database, batch),
        ({ taskId }) => `forcing the cancellation of task ${taskId}`,
        (some) => forceCancels(database, some),
      ),
    ),
    expired: await part("expiring tasks", async () =>
      each(
        await findOverdueTasks(database, batch),
        (taskId) => `the expiry of task ${taskId}`,
        (some) => expireTasks(database, some),
      ),
    ),
    unparked: await part("letting go of parked tasks", () => unparkEveryKind(database, batch)),
    purged: await part("removing ended tasks", () => purgeIfDue(database, retention, batch)),
  };
}
