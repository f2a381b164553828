/** What can be counted is counted exactly, and what cannot be is refused before it can stand in anybody's way. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Duration } from "../../src/config/duration.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { unique } from "../support/working.ts";

const { everbeat, database } = await openTestEverbeat();
const task = defineTask({ name: "rated", run: (_input: null) => null });
/** The finest that is counted: one start per microsecond. */
const FINEST = [
  [250, 250_000],
  [1, 1_000],
  [999, 999_000],
] as const;
const CANNOT = /cannot be counted: at most \d+ starts in [\d.]+ ?m?s/;

/** Every way in which a limit can be given. */
const WAYS: Record<string, (rate: { limit: number; per: number }) => Promise<unknown>> = {
  "a task's rateLimit": (rate) => everbeat.enqueue(task, null, { rateLimit: { key: unique("key"), ...rate } }),
  "a queue's rateLimit": (rateLimit) => everbeat.queues.set(unique("queue"), { rateLimit }),
  "enqueue() in SQL": (rate) =>
    database.query("select everbeat.enqueue('rated', '{}', $1)", [
      JSON.stringify({ rateLimit: { key: unique("key"), ...rate } }),
    ]),
};

describe.each(Object.entries(WAYS))("%s", (_, give) => {
  test.each(FINEST)("per %i ms may be up to %i, and not one more", async (per, limit) => {
    await give({ limit: limit - 1, per });
    await give({ limit, per });
    await expect(give({ limit: limit + 1, per })).rejects.toThrow(CANNOT);
  });

  test("of 1,000,000 per 250 ms is refused, and all queues are claimed from as before", async () => {
    await expect(give({ limit: 1_000_000, per: 250 })).rejects.toThrow(CANNOT);
    const queue = unique("other");
    await everbeat.enqueue(task, null, { queue });
    expect(await handClaimer(everbeat.database, ["rated"]).claim({ queues: [queue], room: [null] })).toHaveLength(1);
  });
});

describe("a row with a limit that cannot be counted", () => {
  test.each([
    ["0", "1000"],
    ["-1", "1000"],
    ["1", "0"],
    ["1000000", "250"],
    ["1000001", "31536000000"],
    ["1", "31536000001"],
    ["null", "1000"],
    ["1", "null"],
  ])("%s per %s ms cannot be made, of a task nor of a queue", async (limit, per) => {
    await expect(
      database.query(
        `insert into everbeat.task (id, name, queue, priority, run_at, rate_key, rate_limit, rate_per_ms, input)
         values (gen_random_uuid(), 'rated', 'default', 0, now(), 'k', ${limit}, ${per}, 'null')`,
      ),
    ).rejects.toThrow(/violates check constraint/);
    await expect(
      database.query(`insert into everbeat.queue (name, rate_limit, rate_per_ms) values ('bad', ${limit}, ${per})`),
    ).rejects.toThrow(/violates check constraint/);
  });

  test("nor can a limit without a key", () =>
    expect(
      database.query(
        `insert into everbeat.task (id, name, queue, priority, run_at, rate_limit, rate_per_ms, input)
         values (gen_random_uuid(), 'rated', 'default', 0, now(), 1, 1000, 'null')`,
      ),
    ).rejects.toThrow(/violates check constraint/));
});

/** In one transaction time stands still: all of these are taken in the same moment. */
async function takeAtOnce(rate: { limit: number; per: number }, wanted: readonly number[], key = unique("key")) {
  return everbeat.database.transaction(async (tx) => {
    const granted: number[] = [];
    for (const each of wanted) {
      const rows = await tx.query<{ n: number }>("select everbeat.take_rate($1, $2, $3, $4) as n", [
        ...[key, rate.limit, rate.per, each],
      ]);
      granted.push(rows[0]?.n ?? 0);
    }
    return granted;
  });
}

describe("a budget", () => {
  test.each([
    [3, 1_000],
    [7, 10],
    [999, 1],
    [1_000, 1],
    [249_999, 250],
  ])(
    "of %i per %i ms is spent to the last one, one by one or all at once, and then there is none",
    async (limit, per) => {
      const most = Math.min(limit, 30);
      const ones = [...Array(most).keys()].map(() => 1);
      expect(await takeAtOnce({ limit, per }, [limit - most, ...ones, 1])).toEqual([limit - most, ...ones, 0]);
      expect(await takeAtOnce({ limit, per }, [limit + 5, 1])).toEqual([limit, 0]);
    },
  );

  test("is never more than its limit, however it is taken", () =>
    fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 1_000_000 }),
        fc.integer({ min: 1, max: 100_000 }),
        fc.array(fc.integer({ min: 1, max: 100_000 }), { maxLength: 20 }),
        async (asked, per, wanted) => {
          const limit = Math.min(asked, per * 1_000);
          let left = limit;
          const expected = [...wanted, limit].map((each) => {
            const granted = Math.min(each, left);
            left -= granted;
            return granted;
          });
          expect(await takeAtOnce({ limit, per }, [...wanted, limit])).toEqual(expected);
        },
      ),
      { numRuns: 60 },
    ));

  test.each(["infinity", "294000-01-01", "-infinity", "4713-01-01 BC"])(
    "whose record says %s is one again, and never fails",
    async (when) => {
      const key = unique("odd");
      await database.query("insert into everbeat.rate (key, spent_until, deferred_until) values ($1, $2, $2)", [
        ...[`queue/${key}`, when],
      ]);
      const value = async (text: string) =>
        Object.values((await database.query<Record<string, unknown>>(text, [`queue/${key}`]))[0] ?? {})[0];
      expect(await value(`select coalesce(everbeat.next_in_rate(substr($1, 7), 2, 1000), now()) <= now()`)).toBe(true);
      await value("select everbeat.take_rate($1, 2, 1000, 1)");
      const isSoon = `between now() - interval '1 second' and now() + interval '10 years 1 day'`;
      expect(await value(`select everbeat.defer_rate($1, 2, 1000) ${isSoon}`)).toBe(true);
      expect(await value(`select spent_until ${isSoon} from everbeat.rate where key = $1`)).toBe(true);
    },
  );

  test("behind which more tasks wait than there is time is asked again no later than in ten years", async () => {
    const key = unique("long");
    await takeAtOnce({ limit: 1, per: 31_536_000_000 }, [1], key);
    for (let tasks = 0; tasks < 20; tasks++) {
      const [row] = await database.query(
        "select everbeat.defer_rate($1, 1, 31536000000) <= now() + interval '10 years' as bounded",
        [key],
      );
      expect(row).toEqual({ bounded: true });
    }
  });
});

describe("a task that its rate puts off", () => {
  const claimer = handClaimer(everbeat.database, ["rated"]);
  const putOffMs = async (queue: string) =>
    (
      await database.query<{ ms: number }>(
        "select (extract(epoch from max(run_at) - now()) * 1000)::float8 as ms from everbeat.ready where queue = $1",
        [queue],
      )
    )[0]?.ms ?? 0;
  const enqueue = (queue: string, count: number, rate: { limit: number; per: Duration }) =>
    everbeat.enqueueMany(task, new Array(count).fill(null), { options: { queue, rateLimit: { key: queue, ...rate } } });
  const claim = (queue: string) => claimer.claim({ queues: [queue], room: [null], run: 100 });

  test("does not wait for those that were before it and are cancelled", async () => {
    const queue = unique("cancelled");
    await enqueue(queue, 50, { limit: 1, per: "1h" });
    expect(await claim(queue)).toHaveLength(1);
    await everbeat.tasks.cancel({ queue });
    await enqueue(queue, 1, { limit: 1, per: "1h" });
    expect(await claim(queue)).toEqual([]);
    expect(await putOffMs(queue)).toBeLessThanOrEqual(3_600_000);
  });

  test("asks again within minutes where the limit was raised", async () => {
    const queue = unique("raised");
    await enqueue(queue, 50, { limit: 1, per: "1h" });
    expect(await claim(queue)).toHaveLength(1);
    await database.query("delete from everbeat.ready where queue = $1", [queue]);
    await enqueue(queue, 10, { limit: 100, per: "1m" });
    await claim(queue);
    expect(await putOffMs(queue)).toBeLessThanOrEqual(300_000);
  });
});
