/** How the oldest tasks are found: all of them, wherever they lie, and without reading the whole record. */
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { pagesTouched } from "../support/pages-touched.ts";
import { seededRandom } from "../support/seeded-random.ts";

const { database } = await openTestEverbeat();
const client = new pg.Client(database.url);
const HOURS = 40;
const PER_HOUR = 1_000;

/** A thousand tasks of each hour, from so many hours ago on. */
async function endHourByHour(fromHoursAgo: number): Promise<void> {
  for (let hour = 0; hour < HOURS; hour++)
    await client.query(
      `insert into everbeat.ended (task_id, state, attempt, failures, crashes, ended_at, result)
       select gen_random_uuid(), 'completed', 1, 0, 0, now() - make_interval(hours => $1), '"some result"' from generate_series(1, ${PER_HOUR})`,
      [fromHoursAgo - hour],
    );
}

/** So that all pages are known to be visible to everybody. One vacuum is not always enough: a session that has an old snapshot hinders it, such as an automatic analyze. */
async function vacuumEnded(): Promise<void> {
  const vacuum = async () => {
    await client.query("vacuum analyze everbeat.ended");
    const { rows } = await client.query(
      "select relpages - relallvisible as unsure from pg_class where oid = 'everbeat.ended'::regclass",
    );
    return rows[0].unsure;
  };
  await eventually(vacuum, { until: (unsure) => unsure === 0, what: "a vacuum that nobody hinders" });
}

beforeAll(async () => {
  await client.connect();
  await client.query("alter table everbeat.ended set (autovacuum_enabled = off)");
  await endHourByHour(3 * HOURS);
  await vacuumEnded();
  await endHourByHour(2 * HOURS);
  // The old half goes, and the next tasks are written where it was.
  await client.query(`delete from everbeat.ended where ended_at < now() - make_interval(hours => ${2 * HOURS})`);
  await vacuumEnded();
  await endHourByHour(HOURS);
  await vacuumEnded();
  await client.query("select everbeat.purge_ended(31536000000, null, 500)");
}, 120_000);
afterAll(() => client.end());

test("a search for tasks that are too old, of which there are none, reads a few pages of a record of thousands", async () => {
  const { rows } = await client.query(
    "select pg_relation_size('everbeat.ended') / 8192 as pages, count(*)::int as count from everbeat.ended",
  );
  expect(Number(rows[0].pages)).toBeGreaterThan(900);
  const age = (2 * HOURS + 1) * 3_600_000;
  expect(await pagesTouched(client, "select everbeat.purge_ended($1, null, 500)", [age])).toBeLessThan(100);
  expect(await pagesTouched(client, "select everbeat.purge_ended(null, $1, 500)", [rows[0].count])).toBeLessThan(
    rows[0].count / 20,
  );
});

test("a batch costs what is in it", async () => {
  const age = (2 * HOURS - 1) * 3_600_000;
  expect(await pagesTouched(client, "select everbeat.purge_ended($1, null, 100)", [age])).toBeLessThan(5_000);
});

test("nothing that is too old stays, wherever it was written", async () => {
  await client.query("truncate everbeat.ended");
  const random = seededRandom("what ends when");
  // By a clock of the test's own, far ahead: tasks end on its minutes, and are too old ten and a half minutes later.
  const base = Date.parse("2100-01-01T00:00:00Z");
  const instant = (minutes: number) => new Date(base + minutes * 60_000);
  for (let now = 0; now < 60; now++) {
    // With results of all sizes, so that what was freed fits now and then.
    await client.query(
      `insert into everbeat.ended (task_id, state, attempt, failures, crashes, ended_at, result)
       select gen_random_uuid(), 'completed', 1, 0, 0, $1, to_json(repeat('x', (random() * $2::int)::int)) from generate_series(1, $3::int)`,
      [instant(now), Math.floor(random.next() * 300), Math.floor(random.next() * 800)],
    );
    if (random.next() < 0.3) await client.query("vacuum everbeat.ended");
    if (now === 40) await client.query("vacuum full everbeat.ended");
    const cutoff = instant(now - 10.5);
    const due = async () =>
      (await client.query("select count(*)::int as n from everbeat.ended where ended_at < $1", [cutoff])).rows[0].n;
    const expected = await due();
    let purged = 0;
    for (let batch = -1; batch !== 0; purged += batch) {
      const age = Date.now() - cutoff.getTime();
      batch = (await client.query("select everbeat.purge_ended($1, null, 150) as n", [age])).rows[0].n;
    }
    expect([purged, await due()], `after ${now} minutes`).toEqual([expected, 0]);
  }
});

test("of too many the oldest leave, wherever they lie", async () => {
  const times = async () =>
    (await client.query("select ended_at from everbeat.ended order by ended_at")).rows.map(({ ended_at }) => +ended_at);
  const before = await times();
  expect(before.length).toBeGreaterThan(1_000);
  const keep = before.length - 700;
  for (const purged of [500, 200, 0])
    expect((await client.query("select everbeat.purge_ended(null, $1, 500) as n", [keep])).rows[0].n).toBe(purged);
  expect(await times()).toEqual(before.slice(700));
});
