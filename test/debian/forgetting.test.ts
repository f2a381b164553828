/** A database that is behind what its workers have seen: promoted too early, restored from a backup, copied by a dump. */
import pg from "pg";
import { expect, onTestFinished, test, vi } from "vitest";
import { Everbeat } from "../../src/everbeat.ts";
import { type Cluster, createCluster } from "../support/debian-cluster.js";
import { expectRightsToSurvive, FORGETTING_SETTINGS } from "../support/forgetting.ts";
import { promotedBehind, restoredFromBackup } from "../support/ways-to-forget.ts";

vi.setConfig({ testTimeout: 300_000 });

async function started(): Promise<Cluster> {
  const cluster = await createCluster({ settings: FORGETTING_SETTINGS });
  onTestFinished(() => cluster.remove());
  onTestFinished(() => quietly(() => cluster.stop("immediate")));
  return { ...cluster, standby: () => standbyOf(cluster) };
}

async function standbyOf(primary: Cluster): Promise<Cluster> {
  const standby = await primary.standby(FORGETTING_SETTINGS);
  onTestFinished(() => quietly(() => standby.stop("immediate")));
  return standby;
}

function quietly(work: () => void): void {
  try {
    work();
  } catch {
    // It is down already.
  }
}

async function ask<Row>(url: string, text: string): Promise<Row[]> {
  const client = new pg.Client(url);
  client.on("error", () => {});
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}

test("an asynchronous standby that is promoted behind its primary", async () => {
  await expectRightsToSurvive(await promotedBehind(await started()));
});

test("a base backup that is restored at the same address, while workers of a later time still run", async () => {
  await expectRightsToSurvive(restoredFromBackup(await started()));
});

test("a dump that is restored into the same server, with what pg_dump carries along of unlogged tables, is another epoch", async () => {
  const cluster = await started();
  const everbeat = await Everbeat.open({ database: cluster.url, log: "silent" });
  await ask(cluster.url, "select everbeat.current_epoch()");
  await everbeat.close();
  cluster.copyByDump("postgres", "copy");
  const copy = cluster.url.replace(/postgres$/, "copy");
  const looked =
    "select count(*)::int as markers, everbeat.known_epoch() is null as unknown from everbeat.epoch_marker";
  expect(await ask(copy, looked)).toEqual([{ markers: 1, unknown: true }]);
  expect(await ask(cluster.url, looked)).toEqual([{ markers: 1, unknown: false }]);
});

test("a standby, which cannot read the marker, answers whoever only reads", async () => {
  const primary = await started();
  const everbeat = await Everbeat.open({ database: primary.url, log: "silent" });
  await ask(primary.url, "select everbeat.current_epoch(), everbeat.begin_sweep(gen_random_uuid(), 1000, true)");
  const standby = await primary.standby();
  await everbeat.close();
  expect(await ask(standby.url, "select everbeat.known_epoch() as epoch")).toEqual([{ epoch: null }]);
  expect(await ask(standby.url, "select epoch from everbeat.listening_now()")).toEqual([{ epoch: "" }]);
  expect(await ask(standby.url, "select from everbeat.tasks, everbeat.heartbeats")).toEqual([]);
});
