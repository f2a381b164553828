import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile, stat, truncate, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { expect, inject, test, vi } from "vitest";
import { stopEmbeddedServer } from "../../src/database/embedded/embedded-server.ts";
import { query, until, untilStopped } from "../support/embedded-looks.ts";
import { keepersOf, killKeeper, killPostmaster, oneKeeperAtWork } from "../support/embedded-processes.ts";
import { joinedProject, temporaryProject } from "../support/embedded-project.ts";

// Real servers, several at once, on a machine that has other work too.
vi.setConfig({ testTimeout: 180_000 });

const startTime = "select pg_postmaster_start_time()::text as at";

test.concurrent("after the keeper was killed, the next process that joins brings a new one", async (context) => {
  const project = await temporaryProject(context);
  const first = await project.client();
  const joined = await first.join();
  await killKeeper(project.folder, joined.url);
  const second = await project.client();
  await second.join();
  await first.kill("SIGKILL");
  await second.kill("SIGKILL");
  await untilStopped(joined);
});

test.concurrent("after the keeper was killed, a process that is already joined brings a new one", async (context) => {
  const { project, client, joined } = await joinedProject(context);
  await killKeeper(project.folder, joined.url);
  await until("a new keeper", async () => (await keepersOf(project.folder)).length === 1);
  await client.kill("SIGKILL");
  await untilStopped(joined);
});

test.concurrent("a process that leaves right after the keeper was killed does not leave the server behind", async (context) => {
  const { project, client, joined } = await joinedProject(context);
  await killKeeper(project.folder, joined.url);
  await client.close();
  await untilStopped(joined);
});

test.concurrent("a killed server is back on the same URL, with what was committed", async (context) => {
  const { client, joined } = await joinedProject(context);
  await query(joined.url, "create table kept as select 42 as answer");
  await killPostmaster(joined.dataFolder, "SIGKILL");
  const rows = await until("the server to be back", () =>
    query(joined.url, "select * from kept").catch(() => undefined),
  );
  expect(rows).toEqual([{ answer: 42 }]);
  await client.close();
  await untilStopped(joined);
});

test.concurrent("a killed server is brought back by a joined process when the keeper was killed with it", async (context) => {
  const { project, client, joined } = await joinedProject(context);
  await killKeeper(project.folder, joined.url);
  await killPostmaster(joined.dataFolder, "SIGKILL");
  await until("the server to be back", () => query(joined.url, "select 1").catch(() => undefined));
  await client.kill("SIGKILL");
  await untilStopped(joined);
});

test.concurrent("a killed server is brought back by the keeper when the joined process stands still", async (context) => {
  const { project, client, joined } = await joinedProject(context);
  await oneKeeperAtWork(project.folder, joined.url);
  client.signal("SIGSTOP");
  await killPostmaster(joined.dataFolder, "SIGKILL");
  await until("the server to be back", () => query(joined.url, "select 1").catch(() => undefined));
});

test.concurrent("a server that was told to stop once all have left is restarted rather than left half closed", async (context) => {
  const { joined } = await joinedProject(context);
  const [before] = await query(joined.url, startTime);
  await killPostmaster(joined.dataFolder, "SIGTERM");
  const after = await until("the server to be back", () => query(joined.url, startTime).catch(() => undefined));
  expect(after).not.toEqual([before]);
});

test.concurrent("a server that was told so before its keeper came is restarted as well", async (context) => {
  const { project, joined } = await joinedProject(context);
  const [before] = await query(joined.url, startTime);
  await killKeeper(project.folder, joined.url);
  await killPostmaster(joined.dataFolder, "SIGTERM");
  const after = await until("the server to be back", () => query(joined.url, startTime).catch(() => undefined));
  expect(after).not.toEqual([before]);
});

test.concurrent("a hard stop holds against processes that are still joined, until someone joins anew", async (context) => {
  const { project, joined } = await joinedProject(context);
  await stopEmbeddedServer(project.folder);
  await untilStopped(joined);
  await until("the keeper to leave", async () => (await keepersOf(project.folder)).length === 0);
  await expect(query(joined.url, "select 1")).rejects.toThrow(/ENOENT/);

  expect(await (await project.client()).join()).toMatchObject({ url: joined.url });
});

test.concurrent("after a reboot, a postmaster.pid with the number of a stranger does not keep the server from starting", async (context) => {
  const project = await temporaryProject(context);
  const client = await project.client();
  const { dataFolder, url } = await client.join();
  const left = await readFile(join(dataFolder, "postmaster.pid"), "utf8");
  await client.kill("SIGKILL");
  await untilStopped({ dataFolder, url });

  // A living process of the server's own user, which is what makes PostgreSQL refuse.
  const { uid, gid } = await stat(dataFolder);
  const stranger = spawn("sleep", ["600"], { uid, gid });
  context.onTestFinished(() => void stranger.kill("SIGKILL"));
  await once(stranger, "spawn");
  const stale = left.replace(/^\d+/, String(stranger.pid));
  await writeFile(join(dataFolder, "postmaster.pid"), stale);
  expect(await (await project.client()).join()).toMatchObject({ url });
});

test.concurrent("a postmaster.pid that was cut short does not keep the server from starting", async (context) => {
  const { project, client, joined } = await joinedProject(context);
  await client.close();
  await untilStopped(joined);
  await writeFile(join(joined.dataFolder, "postmaster.pid"), "");
  await truncate(join(joined.dataFolder, "postmaster.pid"));
  expect(await (await project.client()).join()).toMatchObject({ kind: "joined" });
});

test.concurrent("a stranger that listens on the port in a left postmaster.pid does not keep the server from starting", async (context) => {
  const { project, client, joined } = await joinedProject(context);
  const left = await readFile(join(joined.dataFolder, "postmaster.pid"), "utf8");
  await client.kill("SIGKILL");
  await untilStopped(joined);

  const stranger = createServer().listen(Number(new URL(joined.url).port), "127.0.0.1");
  context.onTestFinished(() => void stranger.close());
  await once(stranger, "listening");
  await writeFile(join(joined.dataFolder, "postmaster.pid"), left);
  const again = await (await project.client()).join();
  expect(again.url).toBe(joined.url);
  expect(await query(again.url, "select 1 as one")).toEqual([{ one: 1 }]);
});

test.concurrent("another PostgreSQL on the port in a left postmaster.pid, which refuses the password, is not taken for ours", async (context) => {
  const { project, client, joined } = await joinedProject(context);
  const left = await readFile(join(joined.dataFolder, "postmaster.pid"), "utf8");
  await client.kill("SIGKILL");
  await untilStopped(joined);

  const lines = left.split("\n");
  lines[3] = new URL(inject("serverUrl")).port;
  await writeFile(join(joined.dataFolder, "postmaster.pid"), lines.join("\n"));
  const again = await project.client();
  expect(await again.join()).toMatchObject({ dataFolder: joined.dataFolder, adopted: false });
  await again.kill("SIGKILL");
  // It has a keeper all the same.
  await untilStopped(joined);
});

test.concurrent("a starter that is killed while it makes the database leaves nothing that is mistaken for one", async (context) => {
  const project = await temporaryProject(context);
  const starter = await project.client();
  starter.startJoining();
  await until("initdb at work", async () => {
    const [making] = (await readdir(project.folder).catch(() => [])).filter((name) => name.startsWith("making-"));
    return making !== undefined && (await readdir(join(project.folder, making, "data"))).includes("PG_VERSION");
  });
  await starter.kill("SIGKILL");
  const joined = await (await project.client()).join();
  expect(await query(joined.url, "select 1 as one")).toEqual([{ one: 1 }]);
  expect((await readdir(project.folder)).sort()).toEqual(["data", "postgres.log"]);
});
