/** Each change of an alert reaches each channel at least once, from one process, whatever fails on the way. */
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { AlertDelivery, pauseAfterMs } from "../../src/alerts/delivery.ts";
import type { AlertChannel } from "../../src/config/alert-channels.ts";
import type { Store } from "../../src/database/database.ts";
import { Notices } from "../../src/database/notices.ts";
import { Events } from "../../src/events.ts";
import { Everbeat } from "../../src/everbeat.ts";
import { nextDeliveryMs, noteChannel, takeDeliveries } from "../../src/sql/alert-deliveries.ts";
import { raiseAlert, resolveAlert } from "../../src/sql/alerts.ts";
import { startAlertReceiver, webhook } from "../support/alert-receiver.ts";
import { holding, openThrough } from "../support/crash-database.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { refuse } from "../support/refusing.ts";

const { everbeat, database } = await openTestEverbeat();
beforeEach(() => database.query("truncate everbeat.alert, everbeat.alert_channel, everbeat.alert_delivery"));

const raise = (subject: string) =>
  raiseAlert(everbeat.database, { kind: "queue-locked", subject, message: "it is locked" });
const resolve = (subject: string) => resolveAlert(everbeat.database, "queue-locked", subject);
const withChannels = (...alertChannels: AlertChannel[]) => openThrough(database.url, { alertChannels });
/** What waits for its next try is due now. */
const hurry = () => database.query("update everbeat.alert_delivery set next_try_at = now() where delivered_at is null");
const undelivered = async () =>
  (await database.query("select from everbeat.alert_delivery where delivered_at is null")).length;

test("a webhook gets each change, first that it was raised and then that it is over", async () => {
  const receiver = await startAlertReceiver();
  await withChannels(webhook(receiver.url));
  await raise("a");
  await resolve("a");
  await raise("b");
  await eventually(() => receiver.received.length === 3);
  const changes = receiver.changes();
  expect(changes.toSorted()).toEqual(["raised a", "raised b", "resolved a"]);
  expect(changes.indexOf("raised a")).toBeLessThan(changes.indexOf("resolved a"));
  await eventually(async () => (await undelivered()) === 0);
});

test("of several processes that have it one delivers, and each channel gets every change", async () => {
  const [one, other] = [await startAlertReceiver(), await startAlertReceiver()];
  for (const from of ["first", "second", "third"])
    await withChannels(webhook(one.url, { from }), webhook(other.url, { name: "another", from }));
  const subjects = Array.from({ length: 20 }, (_, n) => `q${n}`);
  for (const subject of subjects) await raise(subject);
  await eventually(async () => (await undelivered()) === 0 && one.received.length >= 20);
  for (const { received } of [one, other])
    expect(received.map(({ subject }) => subject).toSorted()).toEqual(subjects.toSorted());
});

test("a process that began earlier does not take what another one has taken since", async () => {
  await noteChannel(everbeat.database, "ops");
  await raise("a");
  const take = (store: Store) => takeDeliveries(store, { channel: "ops", leaseMs: 60_000, limit: 10 });
  const taken = await everbeat.database.transaction(async (earlier) => {
    await earlier.query("select now()");
    return [await take(everbeat.database), await take(earlier)];
  });
  expect(taken.map(({ length }) => length)).toEqual([1, 0]);
});

test("nothing is written for channels where no process has one", async () => {
  await raise("a");
  expect(await database.query("select from everbeat.alert_delivery")).toEqual([]);
});

test("a channel gets nothing from before it was first there, and what happened while no process had it", async () => {
  const receiver = await startAlertReceiver();
  await raise("before");
  const first = await withChannels(webhook(receiver.url));
  await first.close();
  await raise("meanwhile");
  await resolve("before");
  expect(receiver.changes()).toEqual([]);
  await withChannels(webhook(receiver.url));
  await eventually(() => receiver.received.length === 2);
  expect(receiver.changes().toSorted()).toEqual(["raised meanwhile", "resolved before"]);
});

describe("a receiver that does not take it", () => {
  test("is tried again until it does, with the same id, and the record says why", async () => {
    const receiver = await startAlertReceiver();
    receiver.answer = 503;
    const sender = await withChannels(webhook(receiver.url));
    const told: unknown[] = [];
    sender.on("alert.not-delivered", (event) => told.push(event));
    await raise("a");
    await eventually(() => told.length === 1);
    expect(told[0]).toMatchObject({ channel: "webhook", change: "raised", tries: 1 });
    const [row] = await eventually(
      () => database.query<{ last_error: string }>("select last_error from everbeat.alert_delivery"),
      { until: ([first]) => first?.last_error != null },
    );
    expect(row?.last_error).toContain("the receiver answered 503");
    receiver.answer = 204;
    await eventually(() => receiver.received.length === 2, { what: "the second try, without any hurry" });
    expect(receiver.received.map(({ id, tries }) => [id, tries])).toEqual([
      [receiver.received[0]?.id, 1],
      [receiver.received[0]?.id, 2],
    ]);
    await eventually(async () => (await undelivered()) === 0);
  });

  test("is not asked for over and over meanwhile, although its end is due as well", async () => {
    const receiver = await startAlertReceiver();
    receiver.answer = 503;
    const failed = await withChannels(webhook(receiver.url));
    await raise("a");
    await eventually(() => receiver.received.length === 1);
    await failed.close();
    await resolve("a");
    await raise("purged");
    await database.query("delete from everbeat.alert where subject = 'purged'");
    await database.query(
      "update everbeat.alert_delivery set next_try_at = now() + interval '10 minutes', tries = 12 where change = 'raised' and tries > 0",
    );
    expect(await nextDeliveryMs(everbeat.database, "webhook")).toBeGreaterThan(500_000);
  });

  test("is told that an alert is over only after it was told that it was raised", async () => {
    const receiver = await startAlertReceiver();
    receiver.answer = 500;
    await withChannels(webhook(receiver.url));
    await raise("a");
    await resolve("a");
    await eventually(() => receiver.received.length > 0);
    for (let nth = 0; nth < 3; nth++) await hurry();
    expect(new Set(receiver.changes())).toEqual(new Set(["raised a"]));
    receiver.answer = 204;
    await hurry();
    await eventually(async () => (await undelivered()) === 0);
    expect(receiver.changes().at(-1)).toBe("resolved a");
  });

  test("holds up no other channel, and one bad change no other change", async () => {
    const [good, bad] = [await startAlertReceiver(), await startAlertReceiver()];
    bad.answer = ({ subject }) => (subject === "bad" ? "nothing" : 204);
    const silent: AlertChannel = { name: "silent", deliver: () => new Promise(() => {}) };
    const broken: AlertChannel = {
      name: "broken",
      deliver() {
        throw new Error("a bug of the user's");
      },
    };
    await withChannels(webhook(good.url), webhook(bad.url, { name: "bad" }), silent, broken);
    for (const subject of ["bad", "one", "two"]) await raise(subject);
    await eventually(() => good.received.length === 3 && bad.received.length >= 3);
    expect(good.changes().toSorted()).toEqual(["raised bad", "raised one", "raised two"]);
    const left = "select channel from everbeat.alert_delivery where delivered_at is null order by 1";
    await eventually(() => database.query(left), { until: (rows) => rows.length === 7 });
  });
});

test("pauses grow from a second to ten minutes", () => {
  const pauses = [1, 2, 3, 4, 10, 11, 1_000].map((tries) => pauseAfterMs(tries, 1));
  expect(pauses).toEqual([1_000, 2_000, 4_000, 8_000, 512_000, 600_000, 600_000]);
  expect(pauseAfterMs(1, 0)).toBe(750);
});

test("a change that somebody has locked is passed by, and delivered when it is free", async () => {
  const receiver = await startAlertReceiver();
  const sender = await withChannels(webhook(receiver.url));
  await sender.close();
  await raise("locked");
  await raise("free");
  const { abandon } = await holding(
    database.url,
    "select from everbeat.alert_delivery d join everbeat.alert a on a.id = d.alert_id where a.subject = 'locked' for update of d",
  );
  await withChannels(webhook(receiver.url));
  await eventually(() => receiver.received.length === 1);
  expect(receiver.changes()).toEqual(["raised free"]);
  await abandon();
  await raise("another");
  await eventually(() => receiver.received.length === 3);
});

test("one that somebody has locked is looked for again in a while, and not all the time", async () => {
  const receiver = await startAlertReceiver();
  const sender = await withChannels(webhook(receiver.url));
  await sender.close();
  await raise("a");
  await holding(database.url, "select from everbeat.alert_delivery for update");
  const notices = new Notices(everbeat.database);
  const events = new Events(() => {});
  const delivery = new AlertDelivery({ database: everbeat.database, notices, events, channel: webhook(receiver.url) });
  onTestFinished(() => delivery.stop());
  await delivery.deliverDue();
  expect(delivery.dueInMs).toBe(1_000);
});

test("an alert that has the id of one that was lost in a failover is another change for a receiver", async () => {
  const receiver = await startAlertReceiver();
  await withChannels(webhook(receiver.url));
  await raise("lost");
  await eventually(() => receiver.received.length === 1);
  await eventually(async () => (await undelivered()) === 0);
  const [{ id } = { id: "" }] = await database.query<{ id: string }>("delete from everbeat.alert returning id");
  const again =
    "insert into everbeat.alert (id, kind, subject, message) overriding system value values ($1, 'queue-locked', 'new', '')";
  await database.query(again, [id]);
  await eventually(() => receiver.received.length === 2);
  const [first, second] = receiver.received.map((received) => received.id);
  expect(second).not.toBe(first);
});

test.each(["3 days", "5 minutes"])(
  "what was taken under a clock that has been set back by %s since does not wait for that time to come",
  async (by) => {
    const receiver = await startAlertReceiver();
    const sender = await withChannels(webhook(receiver.url));
    await sender.close();
    await raise("a");
    await database.query("update everbeat.alert_delivery set next_try_at = now() + $1::interval", [by]);
    await withChannels(webhook(receiver.url));
    await eventually(() => receiver.received.length === 1);
  },
);

test("a process that leaves hands what is on its way to another at once", async () => {
  const receiver = await startAlertReceiver();
  receiver.answer = "nothing";
  const leaving = await withChannels(webhook(receiver.url, { from: "leaving" }));
  await raise("a");
  await eventually(() => receiver.received.length === 1);
  receiver.answer = 204;
  await leaving.close();
  await withChannels(webhook(receiver.url, { from: "staying" }));
  await eventually(() => receiver.received.length === 2);
  expect(receiver.received.map(({ from }) => from)).toEqual(["leaving", "staying"]);
});

test("an alert that is raised while nothing of it can be delivered is raised all the same", async () => {
  await withChannels({ name: "webhook", deliver: () => Promise.reject(new Error("no")) });
  expect(await raise("a")).toBe(true);
  await resolve("a");
  expect(await everbeat.alerts.list({ open: true })).toEqual([]);
});

test.each([
  [{}, /alertChannels: must be a list of channels/],
  [[{ name: "a" }], /alertChannels\[0\]\.deliver: must be a function/],
  [[{ deliver: () => {} }], /alertChannels\[0\]\.name: is missing/],
  [[{ name: "", deliver: () => {} }], /alertChannels\[0\]\.name: must be text/],
  [
    [
      { name: "a", deliver: () => {} },
      { name: "a", deliver: () => {} },
    ],
    /alertChannels\[1\]\.name: is that of another channel: "a"/,
  ],
])("channels that are none are refused: %j", async (alertChannels, message) => {
  const opening = Everbeat.open({ database: database.url, alertChannels: alertChannels as never });
  opening.then((opened) => onTestFinished(() => opened.close())).catch(() => {});
  await expect(opening).rejects.toThrow(message);
});

describe("a channel that cannot be put on record", () => {
  const inTime = { timeout: 15_000 };

  test("because somebody has locked its row keeps nobody from opening Everbeat", inTime, async () => {
    const receiver = await startAlertReceiver();
    await (await withChannels(webhook(receiver.url))).close();
    const { abandon } = await holding(database.url, "select from everbeat.alert_channel for update");
    await withChannels(webhook(receiver.url));
    await raise("a");
    await eventually(() => receiver.received.length === 1);
    await abandon();
  });

  test(
    "because the database refuses it keeps nobody from opening Everbeat, and is there when it may be",
    inTime,
    async () => {
      const receiver = await startAlertReceiver();
      const { allow } = await refuse(database, "alert_channel", "true");
      const opened = await withChannels(webhook(receiver.url));
      await eventually(async () =>
        (await opened.services()).process.some((one) => one.name === "alert delivery" && one.lastRun?.error),
      );
      await allow();
      await eventually(async () => (await database.query("select from everbeat.alert_channel")).length === 1);
      await raise("a");
      await eventually(() => receiver.received.length === 1);
    },
  );
});

test("one that hangs holds up no other of its channel that comes later", { timeout: 13_000 }, async () => {
  const receiver = await startAlertReceiver();
  receiver.answer = ({ subject }) => (subject === "slow" ? "nothing" : 204);
  await withChannels(webhook(receiver.url));
  await raise("slow");
  await eventually(() => receiver.received.length === 1);
  await raise("quick");
  await eventually(() => receiver.changes().includes("raised quick"));
  await resolve("quick");
  await eventually(() => receiver.changes().includes("resolved quick"));
});

test("what is taken while its process leaves is not handed to the channel, and is free for another at once", async () => {
  const handed: string[] = [];
  const channel: AlertChannel = { name: "late", deliver: async ({ alert }) => void handed.push(alert.subject) };
  const notices = new Notices(everbeat.database);
  await noteChannel(everbeat.database, channel.name);
  await raise("a");
  let hasBegunToLeave = false;
  const query = async (...of: Parameters<typeof everbeat.database.query>) => {
    const rows = await everbeat.database.query(...of);
    if (of[0].includes("taken") && !hasBegunToLeave) {
      hasBegunToLeave = true;
      void delivery.stop();
    }
    return rows;
  };
  const leaving = { ...everbeat.database, query: query as typeof everbeat.database.query };
  const delivery = new AlertDelivery({ database: leaving, notices, events: new Events(() => {}), channel });
  await delivery.deliverDue();
  // What has begun in the meantime is waited for.
  await delivery.stop();
  expect(handed).toEqual([]);
  expect(await database.query("select from everbeat.alert_delivery where next_try_at <= now()")).toHaveLength(1);
});
