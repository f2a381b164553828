/** The alerts that a process keeps open: what it said last is what is on record, whatever happens to the database and to others meanwhile. */
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import type { AlertKind, NewAlert } from "../../src/alert-kinds.ts";
import { Alerts } from "../../src/alerts/alerts.ts";
import { raiseAlert, resolveEndedAlerts } from "../../src/sql/alerts.ts";
import { PURGE_RULES, purge } from "../../src/sql/purge.ts";
import { holding } from "../support/crash-database.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { refuse } from "../support/refusing.ts";
import { anHourLater } from "../support/sweeping.ts";

const { everbeat, database } = await openTestEverbeat();
beforeEach(() => database.query("truncate everbeat.alert, everbeat.listening"));

function process() {
  const refused: unknown[] = [];
  const alerts = new Alerts({ database: everbeat.database, onRefused: (error) => refused.push(error) });
  onTestFinished(() => alerts.stop());
  return { alerts, refused };
}

const locked = (subject: string): NewAlert => ({ kind: "queue-locked", subject, message: "it is locked" });
const rolling = (subject: string, message = "it stopped"): NewAlert => ({ kind: "roll-stopped", subject, message });
const open = async () =>
  (await everbeat.alerts.list({ open: true })).map(({ kind, subject }) => `${kind} ${subject}`).sort();
/** What every sweep does about alerts. */
const sweep = () => resolveEndedAlerts(everbeat.database);

test("whoever raises one is told whether it is new, and a process that repeats itself changes nothing", async () => {
  const [one, other] = [process(), process()];
  expect(await one.alerts.raise(locked("a"))).toBe(true);
  expect(await other.alerts.raise(locked("a"))).toBe(false);
  expect(await one.alerts.raise(locked("b"))).toBe(true);
  expect(await open()).toEqual(["queue-locked a", "queue-locked b"]);
});

test("one that has left the record while it was open is raised again, and none that is resolved", async () => {
  const { alerts } = process();
  for (const subject of ["one", "two"]) await alerts.raise(rolling(subject));
  alerts.resolve("roll-stopped", "one");
  await alerts.written();
  expect(await open()).toEqual(["roll-stopped two"]);
  await database.query("delete from everbeat.alert");
  await alerts.sayAgain();
  await alerts.sayAgain();
  expect(await open()).toEqual(["roll-stopped two"]);
});

test("a subject has one row for each time that it was in trouble, with how often that was said", async () => {
  const { alerts } = process();
  for (const message of ["first", "second"]) {
    await alerts.raise(rolling("it", message));
    await alerts.raise(rolling("it", `${message}, more of it`));
    alerts.resolve("roll-stopped", "it");
    await alerts.written();
  }
  const rows = await everbeat.alerts.list();
  expect(rows.map(({ message, times, resolvedAt }) => ({ message, times, isOver: resolvedAt !== null }))).toEqual([
    { message: "second, more of it", times: 2, isOver: true },
    { message: "first, more of it", times: 2, isOver: true },
  ]);
});

test("what is met again every second is noted at most twice a minute", async () => {
  for (let second = 0; second < 5; second++) await raiseAlert(everbeat.database, rolling("it"));
  await database.query("update everbeat.alert set last_raised_at = now() - interval '31 seconds'");
  expect(await raiseAlert(everbeat.database, rolling("it", "worse"))).toBe(false);
  expect(await everbeat.alerts.list({ open: true })).toMatchObject([{ message: "worse", times: 2 }]);
});

describe("what was said last stays", () => {
  test("also where the alert is still being raised when it is resolved", async () => {
    const { alerts } = process();
    // The raise waits for this, and a resolve does not see it.
    const other = "insert into everbeat.alert (kind, subject, message) values ('roll-stopped', 'it', '')";
    const { abandon } = await holding(database.url, other);
    const waiting = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
    void alerts.raise(rolling("it"));
    await eventually(async () => (await database.query(waiting)).length === 1, { what: "the raise to wait" });
    alerts.resolve("roll-stopped", "it");
    await abandon();
    await alerts.written();
    expect(await open()).toEqual([]);
  });

  test("in every order of raising and resolving", async () => {
    const { alerts } = process();
    for (const last of ["raise", "resolve"]) {
      const words: Promise<unknown>[] = [];
      for (let nth = 0; nth < 20; nth++) {
        words.push(alerts.raise(rolling("it")));
        if (nth % 3 === 0) await words.at(-1);
        if (nth < 19 || last === "resolve") alerts.resolve("roll-stopped", "it");
      }
      await Promise.all([...words, alerts.written()]);
      expect(await open()).toEqual(last === "raise" ? ["roll-stopped it"] : []);
    }
  });

  test("also where somebody has locked the alert that is to be resolved, and others need not wait for that", async () => {
    const { alerts } = process();
    await alerts.raise(rolling("it"));
    const { abandon } = await holding(database.url, "select from everbeat.alert for update");
    alerts.resolve("roll-stopped", "it");
    expect(await alerts.raise(rolling("another"))).toBe(true);
    expect(await open()).toEqual(["roll-stopped another", "roll-stopped it"]);
    await abandon();
    await alerts.written();
    expect(await open()).toEqual(["roll-stopped another"]);
  });

  test("also where the database was away", async () => {
    const { alerts } = process();
    await alerts.raise(rolling("it"));
    const { allow } = await refuse(database, "alert", "true");
    await allow();
    await database.query("alter function everbeat.write_alerts rename to away");
    const outage = `create function everbeat.write_alerts(p_kinds text[], p_subjects text[], p_messages text[], p_details text[], p_parts text[], p_anew boolean[])
      returns table (place integer, became text) language plpgsql as $$ begin perform pg_terminate_backend(pg_backend_pid()); end $$`;
    await database.query(outage);
    alerts.resolve("roll-stopped", "it");
    void alerts.raise(rolling("another"));
    const ended = "select from pg_stat_database where datname = current_database() and sessions_killed > 1";
    await eventually(async () => (await database.query(ended)).length === 1, { what: "some tries to fail" });
    await database.query("drop function everbeat.write_alerts; alter function everbeat.away rename to write_alerts");
    await alerts.written();
    expect(await open()).toEqual(["roll-stopped another"]);
  });
});

test("one that is refused keeps no other from being raised, is told of, and is raised when it is taken", async () => {
  const { alerts, refused } = process();
  const { allow } = await refuse(database, "alert", "new.subject = 'bad'");
  await Promise.all(["good", "bad", "better"].map((subject) => alerts.raise(rolling(subject))));
  expect(await open()).toEqual(["roll-stopped better", "roll-stopped good"]);
  expect(refused).toHaveLength(1);
  await allow();
  await alerts.sayAgain();
  expect(await open()).toEqual(["roll-stopped bad", "roll-stopped better", "roll-stopped good"]);
});

test("a thousand at once are a few statements", async () => {
  const { alerts } = process();
  await Promise.all(Array.from({ length: 1_000 }, (_, n) => alerts.raise(rolling(`it ${n}`))));
  expect(await database.query("select from everbeat.alert")).toHaveLength(1_000);
});

test("after its stop a process says nothing any more", async () => {
  const { alerts } = process();
  await alerts.raise(rolling("it"));
  alerts.stop();
  alerts.resolve("roll-stopped", "it");
  expect(await alerts.raise(rolling("another"))).toBe(false);
  await alerts.written();
  expect(await open()).toEqual(["roll-stopped it"]);
});

describe("an alert whose process was killed", () => {
  const agoByMinutes = (minutes: number) =>
    database.query("update everbeat.alert set last_raised_at = now() - make_interval(mins => $1)", [minutes]);

  test("is resolved by a sweep when nobody has kept it open for a quarter of an hour", async () => {
    await process().alerts.raise(locked("a"));
    await agoByMinutes(14);
    await sweep();
    expect(await open()).toEqual(["queue-locked a"]);
    await agoByMinutes(16);
    await sweep();
    expect(await open()).toEqual([]);
  });

  test("stays open where nobody could say so in between: the database was away, or its clock was set ahead", async () => {
    await process().alerts.raise(locked("a"));
    await agoByMinutes(60);
    const hearingFor = async (minutes: number) => {
      await anHourLater(everbeat.database);
      await database.query("update everbeat.listening set hearing_since = now() - make_interval(mins => $1)", [
        minutes,
      ]);
    };
    await hearingFor(14);
    await sweep();
    expect(await open()).toEqual(["queue-locked a"]);
    await hearingFor(16);
    await sweep();
    expect(await open()).toEqual([]);
  });

  test("stays open as long as another process keeps it", async () => {
    const [one, other] = [process(), process()];
    for (const { alerts } of [one, other]) await alerts.raise(locked("a"));
    one.alerts.stop();
    await agoByMinutes(16);
    await other.alerts.sayAgain();
    await sweep();
    expect(await open()).toEqual(["queue-locked a"]);
  });

  test("stays open where its cause does not end with the process, until it is old", async () => {
    const about = { kind: "sweep-passed-by", subject: "it", message: "it failed", part: "hearts" } as const;
    await process().alerts.raise({ ...about, details: { code: "P0001", message: "no" } });
    await agoByMinutes(60 * 24 * 10);
    await sweep();
    expect(await open()).toEqual(["sweep-passed-by it"]);
  });
});

test("an alert that is met again never gets old", async () => {
  await raiseAlert(everbeat.database, rolling("still met"));
  await raiseAlert(everbeat.database, rolling("nobody meets it"));
  await database.query(
    "update everbeat.alert set raised_at = now() - interval '40 days', last_raised_at = now() - interval '40 days'",
  );
  await raiseAlert(everbeat.database, rolling("still met"));
  const rule = PURGE_RULES.find(({ what }) => what === "alerts");
  const ages = { historyAgeMs: 1, purgeAgeMs: 1, postMortemAgeMs: 30 * 86_400_000 };
  if (rule) await everbeat.database.transaction((tx) => purge(tx, rule, ages, 10));
  expect(await open()).toEqual(["roll-stopped still met"]);
});

test("a kind that is none is refused, with the nearest one", async () => {
  const misspelt = "mass-deth" as AlertKind;
  const refusal = { code: "INVALID_OPTIONS", message: expect.stringContaining('did you mean "mass-death"?') };
  await expect(everbeat.alerts.list({ kind: misspelt })).rejects.toMatchObject(refusal);
  await expect(everbeat.alerts.history(misspelt, "fleet")).rejects.toMatchObject(refusal);
});
