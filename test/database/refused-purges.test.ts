/** Old rows of the record that a trigger of a user's own keeps from being deleted are told of and stay, and all others leave. */
import pg from "pg";
import { beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { Events } from "../../src/events.ts";
import { PassedBy } from "../../src/recovery/passed-by.ts";
import { PURGE_RULES } from "../../src/sql/purge.ts";
import { purgeRecord } from "../../src/upkeep/purge-record.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { refuseToDelete } from "../support/refusing.ts";

const { everbeat, database } = await openTestEverbeat();
const DAY_MS = 86_400_000;
const AGES = { historyAgeMs: DAY_MS, purgeAgeMs: DAY_MS, postMortemAgeMs: DAY_MS };
const AGO = "now() - interval '100 days'";

/** One sweeper, and what it passed by. */
function sweeper() {
  const told: string[] = [];
  const fail = (error: unknown) => {
    throw error;
  };
  const events = new Events(fail);
  events.on("upkeep.passed-by", ({ what }) => told.push(what));
  const passedBy = new PassedBy(
    { service: "upkeep", part: "record" },
    { database: everbeat.database, events, onError: fail },
  );
  return { told, purge: (enoughMs?: number) => purgeRecord(everbeat.database, AGES, passedBy, enoughMs) };
}

beforeEach(() =>
  database.query(
    "truncate everbeat.alert, everbeat.machine, everbeat.replica, everbeat.heart, everbeat.beat_history, everbeat.unique_hold, everbeat.definition",
  ),
);
const uuid = (n: string) => `('00000000-0000-0000-0000-' || lpad(${n}::text, 12, '0'))::uuid`;

/** How rows 1 to n come into a table, and which column refuses number 2. */
const TABLES: [table: string, put: string, isSecond: string][] = [
  ["machine", `insert into everbeat.machine (id, hostname, joined_at) select n::text, 'h', ${AGO}`, "old.id = '2'"],
  [
    "replica",
    `insert into everbeat.replica (id, hostname, pid, version, status, seen_at, tasks) select ${uuid("n")}, 'h', 1, '1', 'dead', ${AGO}, '{}'`,
    `old.id = ${uuid("2")}`,
  ],
  [
    "beat_history",
    `insert into everbeat.beat_history (replica_id, beat_at) select ${uuid("n")}, ${AGO}`,
    `old.replica_id = ${uuid("2")}`,
  ],
  [
    "unique_hold",
    `insert into everbeat.unique_hold (name, key, task_id) select 'x', n::text, ${uuid("n")}`,
    "old.key = '2'",
  ],
  [
    "definition",
    `insert into everbeat.definition (name, settings, seen_at) select n::text, '{}', ${AGO}`,
    "old.name = '2'",
  ],
];

test.each(TABLES)("one of %s: it is told of once, and leaves when it can", async (table, put, isSecond) => {
  await database.query(`${put} from generate_series(1, 5) n`);
  const { allow } = await refuseToDelete(database, table, isSecond);
  const count = async () => (await database.query(`select from everbeat.${table}`)).length;
  const [one, other] = [sweeper(), sweeper()];
  for (const { purge } of [one, other, one]) expect(await purge()).toBe(true);
  expect(await count()).toBe(1);
  expect([one.told, other.told]).toEqual([[expect.stringMatching(/^removing old .*: .*2( at .*)?$/)], []]);
  expect(await everbeat.alerts.list({ open: true })).toMatchObject([
    { kind: "upkeep-passed-by", subject: one.told[0] },
  ]);
  await allow();
  await sweeper().purge();
  expect(await count()).toBe(0);
  expect(await everbeat.alerts.list({ open: true })).toEqual([]);
});

test("more of them than a batch", async () => {
  await database.query(
    `insert into everbeat.machine (id, hostname, joined_at) select n::text, 'h', ${AGO} from generate_series(1, 1300) n`,
  );
  await refuseToDelete(database, "machine", "old.id::int <= 1100");
  const { told, purge } = sweeper();
  const leftAfterPurge = async () => {
    await purge();
    return (await database.query("select from everbeat.machine")).length;
  };
  // Two purges, or more on a busy machine: each ends after some seconds.
  await eventually(leftAfterPurge, { until: (count) => count === 1_100, within: 50_000 });
  expect(told.filter((what) => what.includes(": "))).toHaveLength(1_100);
});

test("one that a later purge had no time to try again stays told of", async () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  onTestFinished(() => void vi.useRealTimers());
  await database.query(
    `insert into everbeat.machine (id, hostname, joined_at) select n::text, 'h', ${AGO} from generate_series(1, 3) n`,
  );
  await refuseToDelete(database, "machine", "true");
  const { told, purge } = sweeper();
  await purge();
  expect(told).toHaveLength(3);
  // Long enough for all of them to be tried again.
  vi.advanceTimersByTime(60_000);
  await purge(0);
  vi.advanceTimersByTime(60_000);
  await purge();
  expect(told.filter((what) => what.includes(": "))).toHaveLength(3);
});

test("a table that somebody has locked against changes holds up a purge once, and not for each of its rows", async () => {
  await database.query(
    `insert into everbeat.machine (id, hostname, joined_at) select n::text, 'h', ${AGO} from generate_series(1, 50) n`,
  );
  let transactions = 0;
  const counting = Object.create(everbeat.database, {
    transaction: {
      value: (act: never) => {
        transactions++;
        return everbeat.database.transaction(act);
      },
    },
  });
  const held: unknown[] = [];
  const passedBy = new PassedBy(
    { service: "upkeep", part: "record" },
    { database: everbeat.database, events: new Events(() => {}), onError: (error) => held.push(error) },
  );
  const client = new pg.Client(database.url);
  await client.connect();
  onTestFinished(() => client.end());
  await client.query("begin");
  await client.query("lock table everbeat.machine in share mode");
  await purgeRecord(counting, AGES, passedBy);
  expect([transactions, held]).toEqual([PURGE_RULES.length, [expect.objectContaining({ code: "55P03" })]]);
  await client.query("rollback");
});
