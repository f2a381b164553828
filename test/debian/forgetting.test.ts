/** A database that is behind what its workers have seen: promoted too early, restored from a backup, copied by a dump. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { expect, onTestFinished, test, vi } from "vitest";
import { Everbeat } from "../../src/everbeat.ts";
import { type Cluster, createCluster } from "../support/debian-cluster.js";
import { eventually } from "../support/eventually.ts";
import { expectRightsToSurvive } from "../support/forgetting.ts";
import { startForwarder } from "../support/forwarder.ts";

vi.setConfig({ testTimeout: 300_000 });

async function started(): Promise<Cluster> {
  const cluster = await createCluster();
  onTestFinished(() => cluster.remove());
  onTestFinished(() => quietly(() => cluster.stop("immediate")));
  return cluster;
}

function quietly(work: () => void): void {
  try {
    work();
  } catch {
    // It is down already.
  }
}

/** SIGKILL of the server's first process: nobody is told anything. */
async function kill({ data, url }: Cluster): Promise<void> {
  const [pid] = readFileSync(join(data, "postmaster.pid"), "utf8").split("\n");
  if (!/^[1-9]\d+$/.test(pid ?? "")) throw new Error(`no process in postmaster.pid: ${pid}`);
  process.kill(Number(pid), "SIGKILL");
  const isDown = () =>
    ask(url, "select 1").then(
      () => false,
      () => true,
    );
  await eventually(isDown, { what: "the end of the server" });
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
  const primary = await started();
  const standby = await primary.standby();
  onTestFinished(() => quietly(() => standby.stop("immediate")));
  const { port, leadTo } = await startForwarder(primary.port);
  let sender = 0;
  await expectRightsToSurvive({
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    async point() {
      const [row] = await ask<{ pid: number }>(primary.url, "select pid from pg_stat_replication");
      sender = row?.pid ?? 0;
      expect(sender).toBeGreaterThan(1);
      process.kill(sender, "SIGSTOP");
    },
    async lose() {
      await kill(primary);
      process.kill(sender, "SIGKILL");
      standby.promote();
      leadTo(standby.port);
    },
  });
});

test("a base backup that is restored at the same address, while workers of a later time still run", async () => {
  const cluster = await started();
  await expectRightsToSurvive({
    url: cluster.url,
    point: () => cluster.backUp(),
    async lose() {
      await kill(cluster);
      cluster.restore();
      await eventually(() => {
        cluster.start();
        return true;
      });
    },
  });
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
  await ask(primary.url, "select everbeat.current_epoch(), everbeat.begin_sweep(gen_random_uuid(), 0, 1000, 1, true)");
  const standby = await primary.standby();
  onTestFinished(() => quietly(() => standby.stop("immediate")));
  await everbeat.close();
  expect(await ask(standby.url, "select everbeat.known_epoch() as epoch")).toEqual([{ epoch: null }]);
  expect(await ask(standby.url, "select epoch from everbeat.listening_now()")).toEqual([{ epoch: "" }]);
  expect(await ask(standby.url, "select from everbeat.tasks, everbeat.heartbeats")).toEqual([]);
});
