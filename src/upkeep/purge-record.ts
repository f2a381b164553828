/** Removes what has been on record for long enough. */
import { delay } from "../database/backoff.ts";
import type { Database } from "../database/database.ts";
import { isAboutTheValues } from "../database/transient.ts";
import { PassedBy, type PassedByParts } from "../recovery/passed-by.ts";
import type { ClusterService } from "../services/cluster-service.ts";
import { findOldRows, PURGE_RULES, type PurgeAges, type PurgeRule, purge, purgeRows } from "../sql/purge.ts";

const BATCH = 1_000;
/** After this long no more rows of a table are tried: where so many are refused one by one, it is the table that cannot be written. */
const ENOUGH_MS = 5_000;
/** What is left after a batch of each is removed a little later, so that it is never all that a process does. */
const REST_MS = 250;

export function purgeService(
  parts: PassedByParts & { settings: PurgeAges & { purgeEveryMs: number } },
): ClusterService {
  const { database, settings } = parts;
  const passedBy = new PassedBy({ service: "upkeep", part: "record" }, parts);
  return {
    ...{ name: "purge", everyMs: settings.purgeEveryMs, doing: "removing what is old" },
    async runOnce({ signal }) {
      while (!signal.aborted && !(await purgeRecord(database, settings, passedBy))) await delay(REST_MS, signal);
    },
  };
}

/** One rule that fails does not keep the others from being followed, nor one row the others of its table. False: there is more to remove. */
export async function purgeRecord(
  database: Database,
  ages: PurgeAges,
  passedBy: PassedBy,
  enoughMs = ENOUGH_MS,
): Promise<boolean> {
  let isDone = true;
  for (const rule of PURGE_RULES) {
    const isFollowed = await passedBy.attempt(`removing old ${rule.what}`, () =>
      follow(rule, { database, ages, passedBy, enoughMs }),
    );
    if (isFollowed === false) isDone = false;
  }
  await passedBy.settle();
  return isDone;
}

interface Parts {
  readonly database: Database;
  readonly ages: PurgeAges;
  readonly passedBy: PassedBy;
  readonly enoughMs: number;
}

async function follow(rule: PurgeRule, parts: Parts): Promise<boolean> {
  const { database, ages } = parts;
  try {
    return (await database.transaction((tx) => purge(tx, rule, ages, BATCH))) < BATCH;
  } catch (error) {
    // Rows that are locked are passed over. What waits for a lock all the same waits for that of a table, and so would each half.
    if (!isAboutTheValues(error)) throw error;
    return followInHalves(rule, parts);
  }
}

/** Where a row cannot be removed. Those that were passed by before may be the first, and the others must be reached all the same. */
async function followInHalves(rule: PurgeRule, { database, ages, passedBy, enoughMs }: Parts): Promise<boolean> {
  const limit = BATCH + passedBy.count;
  const untilMs = performance.now() + enoughMs;
  const found = await database.transaction((tx) => findOldRows(tx, rule, ages, limit));
  const whatOf = ({ key }: { readonly key: string }) => `removing old ${rule.what}: ${key}`;
  await passedBy.inHalves(
    found,
    whatOf,
    async (some) => {
      if (performance.now() >= untilMs) {
        for (const one of found) passedBy.leave(whatOf(one));
        throw new Error("It took too long, and the rest was left.");
      }
      return [await database.transaction((tx) => purgeRows(tx, rule, ages, some))];
    },
    isAboutTheValues,
  );
  return found.length < limit;
}
