import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test, vi } from "vitest";
import { describeEmbeddedServer } from "../../src/database/embedded/embedded-server.ts";
import { query, until, untilStopped } from "../support/embedded-looks.ts";
import { keepersOf } from "../support/embedded-processes.ts";
import { joinedProject, LINGER_MS, repository, temporaryProject } from "../support/embedded-project.ts";

// Real servers, several at once, on a machine that has other work too.
vi.setConfig({ testTimeout: 180_000 });

test.concurrent("ten processes that join a fresh folder at once share one server", async (context) => {
  const project = await temporaryProject(context);
  const clients = await Promise.all(Array.from({ length: 10 }, () => project.client()));
  const joined = await Promise.all(clients.map((client) => client.join()));

  expect(new Set(joined.map(({ url }) => url)).size).toBe(1);
  expect(joined.filter(({ adopted }) => !adopted)).toHaveLength(1);
  const log = await readFile(join(project.folder, "postgres.log"), "utf8");
  expect(log.match(/ready to accept connections/g)).toHaveLength(1);
  expect(log).not.toMatch(/ERROR|FATAL/);
  expect((await readdir(project.folder)).sort()).toEqual(["data", "postgres.log"]);
  await until("one keeper", async () => (await keepersOf(project.folder)).length === 1);
});

test.concurrent("the server stops after the last process has left, and its data is there at the next start", async (context) => {
  const project = await temporaryProject(context);
  const [first, second] = [await project.client(), await project.client()];
  const joined = await first.join();
  expect(await second.join()).toMatchObject({ url: joined.url, adopted: true });
  await query(joined.url, "create table kept as select 42 as answer");

  await first.close();
  expect(await query(joined.url, "select answer from kept")).toEqual([{ answer: 42 }]);
  await second.close();
  await untilStopped(joined);
  await until("the keeper to leave too", async () => (await keepersOf(project.folder)).length === 0);

  const again = await (await project.client()).join();
  expect(again).toMatchObject({ url: joined.url, adopted: false });
  expect(await query(again.url, "select answer from kept")).toEqual([{ answer: 42 }]);
});

test.concurrent("the server stops when the last process is killed", async (context) => {
  const { client, joined } = await joinedProject(context);
  await client.kill("SIGKILL");
  await untilStopped(joined);
});

test.concurrent("a keeper that comes when all have left does not start the server again", async (context) => {
  const { project, client, joined } = await joinedProject(context);
  await client.close();
  await untilStopped(joined);
  const late = spawn(process.execPath, [join(repository, "dist/database/embedded/keeper.js"), project.folder, "0"]);
  expect(await once(late, "exit")).toEqual([0, null]);
  const log = await readFile(join(project.folder, "postgres.log"), "utf8");
  expect(log.match(/ready to accept connections/g)).toHaveLength(1);
});

test.concurrent("the server stops when its only process is killed before the keeper is at work", async (context) => {
  const project = await temporaryProject(context);
  const client = await project.client({ lingerMs: 0 });
  const joined = await client.join();
  await client.kill("SIGKILL");
  await untilStopped(joined);
});

test.concurrent.for(["SIGKILL", "SIGINT"] as const)(
  "the others go on when the process that started it gets %s",
  async (signal, context) => {
    const project = await temporaryProject(context);
    const [starter, other] = [await project.client(), await project.client()];
    const { url } = await starter.join();
    const joined = await other.join();
    const [before] = await query(url, "select pg_postmaster_start_time()::text as at");
    await starter.kill(signal);
    expect(await query(url, "select pg_postmaster_start_time()::text as at")).toEqual([before]);
    await other.close();
    await untilStopped(joined);
  },
);

test.concurrent("whoever joins again and again just as the server stops always gets a server", async (context) => {
  const project = await temporaryProject(context);
  for (let round = 0; round < 8; round++) {
    const client = await project.client({ lingerMs: 0 });
    const { url } = await client.join();
    expect(await query(url, "select 1 as one")).toEqual([{ one: 1 }]);
    await client.close();
  }
});

test.concurrent("being joined keeps no process alive, and leaving lasts until it is done", async (context) => {
  const project = await temporaryProject(context);
  const module = JSON.stringify(join(repository, "dist/database/embedded/embedded-server.js"));
  const script = (last: string) =>
    `const { joinEmbeddedServer } = await import(${module});
     const server = await joinEmbeddedServer({ folder: ${JSON.stringify(project.folder)}, lingerMs: ${LINGER_MS} });
     ${last}`;
  const run = async (last: string) =>
    await promisify(execFile)(process.execPath, ["--input-type=module", "-e", script(last)], { timeout: 20_000 });
  expect((await run("console.log('joined');")).stdout).toBe("joined\n");
  expect((await run("await server.close(); console.log('left');")).stdout).toBe("left\n");
});

test.concurrent("it can be described without being started", async (context) => {
  const project = await temporaryProject(context);
  expect(await describeEmbeddedServer(project.folder)).toMatchObject({
    installed: { version: expect.stringMatching(/^18\./) },
    dataFolder: undefined,
    running: undefined,
    problem: "no database has been made yet",
  });

  const client = await project.client();
  const joined = await client.join();
  const port = Number(new URL(joined.url).port);
  const running = await until("a description with a keeper", async () => {
    const description = await describeEmbeddedServer(project.folder);
    return description.running?.hasKeeper === true && description;
  });
  expect(running).toMatchObject({ dataFolder: joined.dataFolder, dataMajor: "18", running: { port } });

  await client.close();
  await untilStopped(joined);
  expect(await describeEmbeddedServer(project.folder)).toMatchObject({
    dataFolder: joined.dataFolder,
    running: undefined,
    problem: "the server is not running",
  });
});

test.concurrent("the password is in no log and on no command line, and only the owner can read it", async (context) => {
  const { project, joined } = await joinedProject(context);
  const { password } = new URL(joined.url);
  expect(password).toHaveLength(48);
  expect(await readFile(join(project.folder, "postgres.log"), "utf8")).not.toContain(password);
  for (const name of (await readdir("/proc")).filter((entry) => /^\d+$/.test(entry))) {
    expect(await readFile(`/proc/${name}/cmdline`, "utf8").catch(() => "")).not.toContain(password);
  }
  const refused = query(joined.url.replace(password, "guess"), "select 1");
  await expect(refused).rejects.toThrow(/password authentication failed/);
});
