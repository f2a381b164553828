/** What a process tells of log lines that are dropped: one event and one alert when it begins, the count when it is over. */
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { Alerts } from "../../src/alerts/alerts.ts";
import { Events } from "../../src/events.ts";
import { LogHealth } from "../../src/log-health.ts";
import { resolveEndedAlerts } from "../../src/sql/alerts.ts";
import type { ReplicaId } from "../../src/task/ids.ts";
import { LogWatch } from "../../src/worker/log-watch.ts";
import { handClaimer } from "../support/claims.ts";
import { holding } from "../support/crash-database.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { refuse } from "../support/refusing.ts";
import { sweeper } from "../support/sweeping.ts";

const { everbeat, database } = await openTestEverbeat();

beforeEach(() => database.query("delete from everbeat.alert"));

function watching(replica: () => ReplicaId | undefined = () => undefined) {
  const logs = { logger: new LogHealth(), stdout: new LogHealth(), stderr: new LogHealth(), runners: new LogHealth() };
  const told: unknown[] = [];
  const events = new Events((error) => {
    throw error;
  });
  events.on("log.dropped", ({ reason }) => told.push(["dropped", reason]));
  events.on("log.back", ({ dropped }) => told.push(["back", dropped]));
  const said = new Alerts({ database: everbeat.database, onRefused: () => {} });
  onTestFinished(() => said.stop());
  const watch = new LogWatch({ alerts: said, events, logs: Object.values(logs), replica });
  /** And all that it says is on record. */
  const look = async (nowMs: number) => {
    watch.lookOnce(nowMs);
    await said.written();
  };
  return { ...logs, watch, said, look, told };
}

/** All alerts there are, also those that are over. */
async function alerts(): Promise<string[]> {
  const rows = await everbeat.alerts.list();
  return rows.map(({ kind, message, resolvedAt }) => {
    const reason = /dropped by process \d+ on [^:]+: (.*)\. Its work goes on\.$/.exec(message)?.[1];
    return `${kind} ${resolvedAt === null ? "open" : "resolved"}: ${reason}`;
  });
}

test("a trouble is told once, however long it lasts, and is over when lines have been written for a while", async () => {
  const { look, told, stderr } = watching();
  stderr.noteWritten();
  await look(0);
  expect({ told, alerts: await alerts() }).toEqual({ told: [], alerts: [] });
  for (let second = 1; second <= 3; second++) {
    stderr.noteDropped(10, "the disk is full");
    await look(second * 1_000);
  }
  expect(told).toEqual([["dropped", "the disk is full"]]);
  expect(await alerts()).toEqual(["log-dropped open: the disk is full"]);
  // No line since: nobody knows whether one would be written.
  await look(60_000);
  expect(await alerts()).toEqual(["log-dropped open: the disk is full"]);
  stderr.noteWritten();
  await look(61_000);
  expect(told).toEqual([
    ["dropped", "the disk is full"],
    ["back", 30],
  ]);
  expect(await alerts()).toEqual(["log-dropped resolved: the disk is full"]);
});

test("a line that is written in between ends no trouble: only five seconds without a drop do", async () => {
  const { look, told, stdout } = watching();
  stdout.noteDropped(1, "the disk is full");
  await look(0);
  stdout.noteWritten();
  await look(4_999);
  expect(told).toHaveLength(1);
  stdout.noteDropped(1, "the disk is full");
  stdout.noteWritten();
  await look(5_000);
  await look(9_999);
  expect(told).toHaveLength(1);
  await look(10_000);
  expect(told.at(-1)).toEqual(["back", 2]);
  // The next trouble is a new one, with a count of its own.
  stdout.noteDropped(3, "the disk is full");
  await look(11_000);
  stdout.noteWritten();
  await look(16_000);
  expect(told.slice(2)).toEqual([
    ["dropped", "the disk is full"],
    ["back", 3],
  ]);
});

test("what runners have dropped is over after a while without more of it, whatever else is written", async () => {
  const { look, told, runners } = watching();
  runners.noteDroppedElsewhere(7, "a runner could not pass on what it printed");
  await look(0);
  expect(await alerts()).toEqual(["log-dropped open: a runner could not pass on what it printed"]);
  await look(5_000);
  expect(told.at(-1)).toEqual(["back", 7]);
  expect(await alerts()).toEqual(["log-dropped resolved: a runner could not pass on what it printed"]);
});

test("the reason that is told is that of the log which drops lines now", async () => {
  const { look, told, logger, stdout, runners } = watching();
  for (const [log, reason] of [
    [logger, "the logger threw"],
    [stdout, "nobody reads it"],
  ] as const) {
    log.noteDropped(1, reason);
    await look(0);
    log.noteWritten();
    await look(5_000);
  }
  runners.noteDroppedElsewhere(1, "a runner could not pass it on");
  await look(6_000);
  expect(told.filter((each) => (each as string[])[0] === "dropped").map((each) => (each as string[])[1])).toEqual([
    "the logger threw",
    "nobody reads it",
    "a runner could not pass it on",
  ]);
});

test("an alert that is refused is tried again, and one that has left the record is raised again", async () => {
  const { look, said, told, stderr } = watching();
  const { allow } = await refuse(database, "alert", "true");
  stderr.noteDropped(1, "the disk is full");
  await look(0);
  expect(await alerts()).toEqual([]);
  await allow();
  await said.sayAgain();
  expect(told).toEqual([["dropped", "the disk is full"]]);
  expect(await alerts()).toEqual(["log-dropped open: the disk is full"]);
  await database.query("delete from everbeat.alert");
  await said.sayAgain();
  expect(await alerts()).toEqual(["log-dropped open: the disk is full"]);
});

test("two in one process have an alert each: the end of one leaves that of the other open", async () => {
  const [one, other] = [watching(), watching()];
  for (const { stderr, look } of [one, other]) {
    stderr.noteDropped(1, "the disk is full");
    await look(0);
  }
  await one.watch.stop();
  await one.said.written();
  expect(await alerts()).toEqual(["log-dropped open: the disk is full", "log-dropped resolved: the disk is full"]);
});

test("the alert of a process that leaves is resolved", async () => {
  const { watch, said, look, stderr } = watching();
  stderr.noteDropped(1, "the disk is full");
  await look(0);
  await watch.stop();
  await said.written();
  expect(await alerts()).toEqual(["log-dropped resolved: the disk is full"]);
});

/** A worker that has an open alert about its log, and that is declared dead. */
async function declaredDead() {
  const claimer = handClaimer(everbeat.database, []);
  await claimer.claim();
  const worker = { id: claimer.replicaId };
  const { look, said, stderr } = watching(() => worker.id);
  stderr.noteDropped(1, "the disk is full");
  await look(0);
  await sweep();
  expect(await alerts()).toEqual(["log-dropped open: the disk is full"]);
  await database.query("update everbeat.replica set status = 'dead' where id = $1", [worker.id]);
  const comeBack = async () => {
    const next = handClaimer(everbeat.database, []);
    await next.claim();
    worker.id = next.replicaId;
  };
  return { comeBack, look, said };
}

const sweep = () => sweeper(everbeat.database).sweep();
const RESOLVED = "log-dropped resolved: the disk is full";
const untilResolved = () => eventually(() => sweep().then(alerts), { until: (all) => all.includes(RESOLVED) });

test("the alert of a worker that was killed is resolved by a sweep, and that of a worker that came back is raised anew", async () => {
  const { comeBack, look } = await declaredDead();
  await untilResolved();
  await comeBack();
  await look(1_000);
  expect(await alerts()).toEqual(["log-dropped open: the disk is full", RESOLVED]);
});

test("the alert of a worker that came back before a sweep goes on under its new id", async () => {
  const { comeBack, look } = await declaredDead();
  await comeBack();
  await look(1_000);
  await resolveEndedAlerts(everbeat.database);
  expect(await alerts()).toEqual(["log-dropped open: the disk is full"]);
});

test("one that somebody has locked when the worker comes back names the new id once it is free", async () => {
  const { comeBack, look } = await declaredDead();
  await comeBack();
  const { abandon } = await holding(database.url, "select from everbeat.alert for update");
  const looked = look(1_000);
  await resolveEndedAlerts(everbeat.database);
  await abandon();
  await looked;
  await resolveEndedAlerts(everbeat.database);
  expect(await alerts()).toEqual(["log-dropped open: the disk is full"]);
});
