/** `alert.raised` and `alert.resolved` in every process that listens for them, wherever the alert was raised: once, also after notices were missed. */
import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import type { NewAlert } from "../../src/alert-kinds.ts";
import { AlertWatch } from "../../src/alerts/alert-watch.ts";
import type { Database } from "../../src/database/database.ts";
import { Notices } from "../../src/database/notices.ts";
import { Events } from "../../src/events.ts";
import type { Everbeat } from "../../src/everbeat.ts";
import { raiseAlert, resolveAlert } from "../../src/sql/alerts.ts";
import { openThrough } from "../support/crash-database.ts";
import { LISTENING, openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { massDeath } from "../support/mass-death.ts";

const { everbeat, database } = await openTestEverbeat();
beforeEach(() => database.query("truncate everbeat.alert"));

const locked = (subject: string): NewAlert => ({ kind: "queue-locked", subject, message: `queue ${subject}` });
const raise = (subject: string) => raiseAlert(everbeat.database, locked(subject));
const resolve = (subject: string) => resolveAlert(everbeat.database, "queue-locked", subject);

function hearing(of: Everbeat) {
  const heard: string[] = [];
  onTestFinished(of.on("alert.raised", ({ subject }) => heard.push(`raised ${subject}`)));
  onTestFinished(of.on("alert.resolved", ({ subject }) => heard.push(`resolved ${subject}`)));
  return heard;
}

test("every process hears of an alert, also of one that SQL or somebody by hand raises and resolves", async () => {
  const heard = [hearing(await openThrough(database.url)), hearing(await openThrough(database.url))];
  await raise("a");
  await database.query("select everbeat.raise_alert('queue-locked', 'b', 'by hand', null)");
  await resolve("a");
  await database.query("update everbeat.alert set resolved_at = now() where subject = 'b'");
  for (const each of heard) {
    await eventually(() => each.length === 4, { what: "all four" });
    expect(each.filter((what) => what.endsWith("a"))).toEqual(["raised a", "resolved a"]);
    expect(each.filter((what) => what.endsWith("b"))).toEqual(["raised b", "resolved b"]);
  }
});

test("it carries what is on record, with its severity", async () => {
  const other = await openThrough(database.url);
  const alerts: unknown[] = [];
  other.on("alert.raised", (alert) => alerts.push(alert));
  const { details } = massDeath();
  await raiseAlert(everbeat.database, massDeath("3 of 4"));
  const [alert] = await eventually(() => alerts, { until: ({ length }) => length === 1 });
  expect(alert).toMatchObject({
    kind: "mass-death",
    severity: "critical",
    subject: "hearts",
    message: "3 of 4",
    details,
  });
});

test("what was open before, and what ends before somebody listens, is not told", async () => {
  await raise("before");
  await raise("long before");
  await resolve("long before");
  const heard = hearing(await openThrough(database.url));
  await raise("after");
  await resolve("before");
  await eventually(() => heard.length === 2);
  expect(heard.toSorted()).toEqual(["raised after", "resolved before"]);
});

test("who listens no more, and listens again later, is told of what comes then", async () => {
  const other = await openThrough(database.url);
  const heard: string[] = [];
  const end = other.on("alert.raised", ({ subject }) => heard.push(subject));
  await raise("first");
  await eventually(() => heard.length === 1);
  end();
  await raise("unheard");
  other.on("alert.raised", ({ subject }) => heard.push(subject));
  await raise("second");
  await eventually(() => heard.includes("second"));
  expect(heard.at(-1)).toBe("second");
});

test("nothing is read where nobody listens", async () => {
  let asked = 0;
  const query = (...of: Parameters<typeof everbeat.database.query>) => {
    asked++;
    return everbeat.database.query(...of);
  };
  const { events, notices, watch } = watching({ ...everbeat.database, query: query as typeof everbeat.database.query });
  const end = events.on("alert.raised", () => {});
  await notices.start();
  watch.start();
  await watch.lookOnce();
  expect(asked).toBeGreaterThan(0);
  end();
  await watch.lookOnce();
  const before = asked;
  let noticed = 0;
  notices.on("alert", () => noticed++);
  await raise("a");
  await eventually(() => noticed === 1);
  await watch.lookOnce();
  expect(asked).toBe(before);
});

function watching(database: Database = everbeat.database) {
  const events = new Events((error) => {
    throw error;
  });
  const notices = new Notices(database);
  const watch = new AlertWatch({ database, notices, events });
  onTestFinished(async () => {
    await watch.stop();
    await notices.stop();
  });
  return { events, notices, watch };
}

describe("who was cut off from notices", () => {
  test("is told of what it missed, and of nothing twice", async () => {
    const heard = hearing(await openThrough(database.url));
    await raise("before");
    await eventually(() => heard.length === 1);
    for (const round of [1, 2, 3]) {
      // In one statement: the notice is sent when the sessions that would get it are gone.
      await database.query(
        `select (select count(pg_terminate_backend(pid)) from ${LISTENING}),
           everbeat.raise_alert('queue-locked', 'missed ${round}', '', null), everbeat.resolve_alert('queue-locked', 'missed ${round - 1}')`,
      );
      await eventually(() => heard.includes(`raised missed ${round}`), { what: "what was missed" });
    }
    await resolve("before");
    await eventually(() => heard.includes("resolved before"));
    expect(heard.toSorted()).toEqual(
      ["raised before", "resolved before"]
        .concat(
          [1, 2, 3].map((round) => `raised missed ${round}`),
          [1, 2].map((round) => `resolved missed ${round}`),
        )
        .toSorted(),
    );
  });

  test("by a pooler, for good, looks for itself", async () => {
    const { events, watch } = watching();
    const heard: string[] = [];
    events.on("alert.raised", ({ subject }) => heard.push(subject));
    watch.start();
    await raise("a");
    await watch.lookOnce();
    await watch.lookOnce();
    expect(heard).toEqual(["a"]);
  });

  test("while very many were raised hears of all of them, in order", async () => {
    const { events, watch } = watching();
    const heard: string[] = [];
    events.on("alert.raised", ({ subject }) => heard.push(subject));
    watch.start();
    await watch.stop();
    await database.query(
      "insert into everbeat.alert (kind, subject, message) select 'queue-locked', n::text, '' from generate_series(1, 1500) n",
    );
    await watch.lookOnce();
    expect(heard).toEqual(Array.from({ length: 1_500 }, (_, n) => `${n + 1}`));
  });
});

describe("what is dated ahead, because the clock was set back since,", () => {
  const setBack = () => database.query("update everbeat.alert set raised_at = raised_at + interval '1 hour'");

  test("is told once by a process that has missed its notice", async () => {
    vi.useFakeTimers({ toFake: ["performance"] });
    onTestFinished(() => void vi.useRealTimers());
    const { events, watch } = watching();
    const heard: string[] = [];
    events.on("alert.raised", ({ subject }) => heard.push(subject));
    watch.start();
    await watch.stop();
    await watch.lookOnce();
    await raise("ahead");
    await setBack();
    for (let look = 0; look < 4; look++) {
      await watch.lookOnce();
      vi.advanceTimersByTime(900_000);
    }
    expect(heard).toEqual(["ahead"]);
  });

  test("is not told to a process that was opened later", async () => {
    await raise("before");
    await setBack();
    const { events, watch } = watching();
    const heard: string[] = [];
    events.on("alert.raised", ({ subject }) => heard.push(subject));
    watch.start();
    await watch.stop();
    await watch.lookOnce();
    await raise("after");
    await watch.lookOnce();
    expect(heard).toEqual(["after"]);
  });
});

test("a thousand changes in a moment are each told once", async () => {
  const other = await openThrough(database.url);
  const heard: string[] = [];
  other.on("alert.raised", ({ subject }) => heard.push(subject));
  for (let round = 0; round < 10; round++) {
    await database.query(
      `select everbeat.raise_alert('queue-locked', '${round} ' || n, '', null) from generate_series(1, 100) n`,
    );
  }
  await eventually(() => heard.length >= 1_000);
  expect(new Set(heard).size).toBe(heard.length);
});

test("every change is told, in order, however many there are at once", async () => {
  const heard = hearing(await openThrough(database.url));
  await raise("first");
  await eventually(() => heard.length === 1);
  const many = (from: number, to: number) =>
    database.query(
      "select everbeat.raise_alert('queue-locked', 'q' || n, '', null) from generate_series($1::int, $2::int) n",
      [from, to],
    );
  for (let from = 0; from < 3_000; from += 600) await many(from, from + 599);
  await many(3_000, 5_999);
  await eventually(() => heard.length >= 6_001);
  expect(new Set(heard).size).toBe(6_001);
  expect(heard).toHaveLength(6_001);
});
