/** Upkeep where all of it in one statement has failed: part by part, and where a part fails on one of its rows, without that row. */
import type { Database } from "../database/database.ts";
import { inHalves } from "../database/in-halves.ts";
import { isAboutSomeRows } from "../database/transient.ts";
import { PassedBy, type PassedByParts } from "../recovery/passed-by.ts";
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

type Part = "whole" | "lanes" | "cancels" | "expiries" | "parked" | "purges";

export function passedByUpkeep(parts: PassedByParts): Record<Part, PassedBy> {
  const passedBy = (part: Part) => new PassedBy({ service: "upkeep", part }, parts);
  return {
    ...{ whole: passedBy("whole"), lanes: passedBy("lanes"), cancels: passedBy("cancels") },
    ...{ expiries: passedBy("expiries"), parked: passedBy("parked"), purges: passedBy("purges") },
  };
}

interface Parts {
  readonly database: Database;
  readonly retention: Retention;
  readonly passedBy: Record<Part, PassedBy>;
  readonly batch: number;
}

/** `error`: the error of the one statement. It is reported if no part fails that would explain it. */
export async function runUpkeepInParts(
  { database, retention, passedBy, batch }: Parts,
  error: unknown,
): Promise<UpkeepReport> {
  const { whole, lanes, cancels, expiries, parked, purges } = passedBy;
  await inOne(lanes, "taking out empty lanes", () => retireLanes(database));
  const report = {
    cancelled: await each(cancels, "forcing overdue cancellations", {
      find: () => findOverdueCancels(database, batch),
      whatOf: ({ taskId }) => `forcing the cancellation of task ${taskId}`,
      act: (some) => forceCancels(database, some),
    }),
    expired: await each(expiries, "expiring tasks", {
      find: () => findOverdueTasks(database, batch),
      whatOf: (taskId) => `the expiry of task ${taskId}`,
      act: (some) => expireTasks(database, some),
    }),
    unparked: (await inOne(parked, "letting go of parked tasks", () => unparkEveryKind(database, batch))) ?? 0,
    purged: (await inOne(purges, "removing ended tasks", () => purgeIfDue(database, retention, batch))) ?? 0,
  };
  if ([lanes, cancels, expiries, parked, purges].every(({ isAllDone }) => isAllDone))
    await whole.tell("upkeep in one statement", error);
  await whole.settle();
  return report;
}

function inOne<T>(part: PassedBy, what: string, act: () => Promise<T>): Promise<T | undefined> {
  return part.attempt(what, async () => {
    const done = await act();
    await part.settle();
    return done;
  });
}

interface RowByRow<T> {
  readonly find: () => Promise<readonly T[]>;
  readonly whatOf: (one: T) => string;
  readonly act: (some: readonly T[]) => Promise<number>;
}

async function each<T>(part: PassedBy, what: string, { find, whatOf, act }: RowByRow<T>): Promise<number> {
  const counts = await inOne(part, what, async () =>
    inHalves(
      (await find()).filter((one) => !part.isResting(whatOf(one))),
      async (some) => [await act(some)],
      async (one, error) => {
        await part.tell(whatOf(one), error);
        return [];
      },
      isAboutSomeRows,
    ),
  );
  return (counts ?? []).reduce((sum, count) => sum + count, 0);
}
