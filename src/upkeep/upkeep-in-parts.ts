/** Upkeep where all of it in one statement has failed: part by part, and where a part fails on one of its rows, without that row. */
import type { Database } from "../database/database.ts";
import { PassedBy, type PassedByParts } from "../recovery/passed-by.ts";
import {
  expireTasks,
  findOverdueCancels,
  findOverdueTasks,
  forceCancels,
  retireLanes,
  type UpkeepReport,
  unparkEveryKind,
} from "../sql/upkeep.ts";

type Part = "whole" | "lanes" | "cancels" | "expiries" | "parked";

export function passedByUpkeep(parts: PassedByParts): Record<Part, PassedBy> {
  const passedBy = (part: Part) => new PassedBy({ service: "upkeep", part }, parts);
  return {
    ...{ whole: passedBy("whole"), lanes: passedBy("lanes"), cancels: passedBy("cancels") },
    ...{ expiries: passedBy("expiries"), parked: passedBy("parked") },
  };
}

interface Parts {
  readonly database: Database;
  readonly passedBy: Record<Part, PassedBy>;
  readonly batch: number;
}

/** `error`: the error of the one statement. It is reported if no part fails that would explain it. */
export async function runUpkeepInParts(parts: Parts, error: unknown): Promise<UpkeepReport> {
  const { database, passedBy, batch } = parts;
  const { whole, lanes, cancels, expiries, parked } = passedBy;
  await inOne(lanes, "taking out empty lanes", () => retireLanes(database));
  const report = {
    cancelled: await each(cancels, "forcing overdue cancellations", {
      find: (passedBy) => findOverdueCancels(database, batch + passedBy),
      whatOf: ({ taskId }) => `forcing the cancellation of task ${taskId}`,
      act: (some) => forceCancels(database, some),
    }),
    expired: await each(expiries, "expiring tasks", {
      find: (passedBy) => findOverdueTasks(database, batch + passedBy),
      whatOf: (taskId) => `the expiry of task ${taskId}`,
      act: (some) => expireTasks(database, some),
    }),
    unparked: (await inOne(parked, "letting go of parked tasks", () => unparkEveryKind(database, batch))) ?? 0,
  };
  if ([lanes, cancels, expiries, parked].every(({ count }) => count === 0))
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
  /** So many that are passed by may be the first. */
  readonly find: (passedBy: number) => Promise<readonly T[]>;
  readonly whatOf: (one: T) => string;
  readonly act: (some: readonly T[]) => Promise<number>;
}

async function each<T>(part: PassedBy, what: string, { find, whatOf, act }: RowByRow<T>): Promise<number> {
  const counts = await inOne(part, what, async () =>
    part.inHalves(await find(part.count), whatOf, async (some) => [await act(some)]),
  );
  return (counts ?? []).reduce((sum, count) => sum + count, 0);
}
