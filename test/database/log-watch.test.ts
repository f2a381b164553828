/** What a process tells of log lines that are dropped: one event and one alert when it begins, the count when it is over. */
import pg from "pg";
import { beforeEach, expect, test } from "vitest";
import { Events } from "../../src/events.ts";
import { LogRecord } from "../../src/log-health.ts";
import { newReplicaId, type ReplicaId } from "../../src/task/ids.ts";
import { LogWatch } from "../../src/worker/log-watch.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { refuse } from "../support/refusing.ts";
import { sweeper } from "../support/sweeping.ts";

const HOUR_MS = 3_600_000;
const { everbeat, database } = await openTestEverbeat();

beforeEach(() => database.query("delete from everbeat.alert"));

function watching(replica: () => ReplicaId | undefined = () => undefined) {
  const logs = { logger: new LogRecord(), stdout: new LogRecord(), stderr: new LogRecord(), runners: new LogRecord() };
  const told: unknown[] = [];
  const events = new Events((error) => {
    throw error;
  });
  events.on("log.dropped", ({ reason }) => told.push(["dropped", reason]));
  events.on("log.back", ({ dropped }) => told.push(["back", dropped]));
  const watch = new LogWatch({ database: everbeat.database, events, logs: Object.values(logs), replica });
  return { ...logs, watch, told };
}

/** All alerts there are, also those that are over. */
async function alerts(): Promise<string[]> {
  const rows = await everbeat.recovery.alerts({ onlyOpen: false });
  return rows.map(({ kind, message, resolvedAt }) => {
    const reason = /dropped by process \d+ on [^:]+: (.*)\. Its work goes on\.$/.exec(message)?.[1];
    return `${kind} ${resolvedAt === null ? "open" : "resolved"}: ${reason}`;
  });
}

test("a trouble is told once, however long it lasts, and is over when lines have been written for a while", async () => {
  const { watch, told, stderr } = watching();
  stderr.noteWritten();
  await watch.lookOnce(0);
  expect({ told, alerts: await alerts() }).toEqual({ told: [], alerts: [] });
  for (let second = 1; second <= 3; second++) {
    stderr.noteDropped(10, "the disk is full");
    await watch.lookOnce(second * 1_000);
  }
  expect(told).toEqual([["dropped", "the disk is full"]]);
  expect(await alerts()).toEqual(["log-dropped open: the disk is full"]);
  // No line since: nobody knows whether one would be written.
  await watch.lookOnce(60_000);
  expect(await alerts()).toEqual(["log-dropped open: the disk is full"]);
  stderr.noteWritten();
  await watch.lookOnce(61_000);
  expect(told).toEqual([
    ["dropped", "the disk is full"],
    ["back", 30],
  ]);
  expect(await alerts()).toEqual(["log-dropped resolved: the disk is full"]);
});

test("a line that is written in between ends no trouble: only five seconds without a drop do", async () => {
  const { watch, told, stdout } = watching();
  stdout.noteDropped(1, "the disk is full");
  await watch.lookOnce(0);
  stdout.noteWritten();
  await watch.lookOnce(4_999);
  expect(told).toHaveLength(1);
  stdout.noteDropped(1, "the disk is full");
  stdout.noteWritten();
  await watch.lookOnce(5_000);
  await watch.lookOnce(9_999);
  expect(told).toHaveLength(1);
  await watch.lookOnce(10_000);
  expect(told.at(-1)).toEqual(["back", 2]);
  // The next trouble is a new one, with a count of its own.
  stdout.noteDropped(3, "the disk is full");
  await watch.lookOnce(11_000);
  stdout.noteWritten();
  await watch.lookOnce(16_000);
  expect(told.slice(2)).toEqual([
    ["dropped", "the disk is full"],
    ["back", 3],
  ]);
});

test("what runners have dropped is over after a while without more of it, whatever else is written", async () => {
  const { watch, told, runners } = watching();
  runners.noteDroppedElsewhere(7, "a runner could not pass on what it printed");
  await watch.lookOnce(0);
  expect(await alerts()).toEqual(["log-dropped open: a runner could not pass on what it printed"]);
  await watch.lookOnce(5_000);
  expect(told.at(-1)).toEqual(["back", 7]);
  expect(await alerts()).toEqual(["log-dropped resolved: a runner could not pass on what it printed"]);
});

test("the reason that is told is that of the log which drops lines now", async () => {
  const { watch, told, logger, stdout, runners } = watching();
  for (const [log, reason] of [
    [logger, "the logger threw"],
    [stdout, "nobody reads it"],
  ] as const) {
    log.noteDropped(1, reason);
    await watch.lookOnce(0);
    log.noteWritten();
    await watch.lookOnce(5_000);
  }
  runners.noteDroppedElsewhere(1, "a runner could not pass it on");
  await watch.lookOnce(6_000);
  expect(told.filter((each) => (each as string[])[0] === "dropped").map((each) => (each as string[])[1])).toEqual([
    "the logger threw",
    "nobody reads it",
    "a runner could not pass it on",
  ]);
});

test("an alert that could not be written is tried again, and one that has left the record is raised again", async () => {
  const { watch, told, stderr } = watching();
  const { allow } = await refuse(database, "alert", "true");
  stderr.noteDropped(1, "the disk is full");
  await expect(watch.lookOnce(0)).rejects.toThrow();
  await allow();
  await watch.lookOnce(1_000);
  expect(told).toEqual([["dropped", "the disk is full"]]);
  expect(await alerts()).toEqual(["log-dropped open: the disk is full"]);
  await database.query("delete from everbeat.alert");
  await watch.lookOnce(HOUR_MS);
  expect(await alerts()).toEqual([]);
  await watch.lookOnce(HOUR_MS + 1_000);
  expect(await alerts()).toEqual(["log-dropped open: the disk is full"]);
});

test("the alert of a process that leaves is resolved", async () => {
  const { watch, stderr } = watching();
  stderr.noteDropped(1, "the disk is full");
  await watch.lookOnce(0);
  await watch.stop();
  expect(await alerts()).toEqual(["log-dropped resolved: the disk is full"]);
});

const ANEW = ["log-dropped open: the disk is full", "log-dropped resolved: the disk is full"];

/** A worker that has an open alert about its log, and that is declared dead. */
async function declaredDead() {
  const claimer = handClaimer(everbeat.database, []);
  await claimer.claim();
  const worker = { id: claimer.replicaId };
  const { watch, stderr } = watching(() => worker.id);
  const sweep = () => sweeper(everbeat.database).sweep();
  stderr.noteDropped(1, "the disk is full");
  await watch.lookOnce(0);
  await sweep();
  expect(await alerts()).toEqual(["log-dropped open: the disk is full"]);
  await database.query("update everbeat.replica set status = 'dead' where id = $1", [worker.id]);
  const untilResolved = () =>
    eventually(
      async () => {
        await sweep();
        return alerts();
      },
      { until: (all) => all.includes("log-dropped resolved: the disk is full") },
    );
  return { worker, watch, untilResolved };
}

test("the alert of a worker that was killed is resolved by a sweep, and that of a worker that came back is raised anew", async () => {
  const { worker, watch, untilResolved } = await declaredDead();
  await untilResolved();
  worker.id = newReplicaId();
  await watch.lookOnce(1_000);
  expect(await alerts()).toEqual(ANEW);
});

test("the alert of a worker that came back before a sweep is raised anew too, and that sweep leaves it open", async () => {
  const { worker, watch, untilResolved } = await declaredDead();
  const next = handClaimer(everbeat.database, []);
  await next.claim();
  worker.id = next.replicaId;
  await watch.lookOnce(1_000);
  await untilResolved();
  expect(await alerts()).toEqual(ANEW);
});

test("one that somebody has locked when the worker comes back is raised anew by a later look", async () => {
  const { worker, watch, untilResolved } = await declaredDead();
  const next = handClaimer(everbeat.database, []);
  await next.claim();
  worker.id = next.replicaId;
  const holder = new pg.Client({ connectionString: database.url });
  await holder.connect();
  await holder.query("begin");
  await holder.query("select from everbeat.alert for update");
  await watch.lookOnce(1_000);
  await holder.end();
  await watch.lookOnce(2_000);
  await untilResolved();
  expect(await alerts()).toEqual(ANEW);
});
