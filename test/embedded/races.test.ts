/** Servers that end while the next one starts, and processes that are held up while they start or stop one. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile, rename, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Client } from "pg";
import { expect, type TestContext, test, vi } from "vitest";
import { stopEmbeddedServer } from "../../src/database/embedded/embedded-server.ts";
import { parsePostmasterFile, readPostmasterFile, realDataFolder } from "../../src/database/embedded/server-files.ts";
import { type Joined, query, until, untilStopped } from "../support/embedded-looks.ts";
import { keepersOf, killPostmaster, oneKeeperAtWork, processesWith } from "../support/embedded-processes.ts";
import { joinedProject, temporaryProject } from "../support/embedded-project.ts";

// Real servers, several at once, on a machine that has other work too.
vi.setConfig({ testTimeout: 180_000 });

const startTime = "select pg_postmaster_start_time()::text as at";

/** With a database whose server has run once and was stopped. */
async function stoppedProject(context: TestContext) {
  const project = await temporaryProject(context);
  const first = await project.client();
  const joined = await first.join();
  const postmasterFile = await readFile(join(joined.dataFolder, "postmaster.pid"), "utf8");
  await first.close();
  await untilStopped(joined);
  return { project, joined, postmasterFile };
}

test.concurrent("a server that is only just ending does not take away the postmaster.pid of the next one", async (context) => {
  const { project, joined, postmasterFile } = await stoppedProject(context);
  const file = join(joined.dataFolder, "postmaster.pid");
  // What is left of a server at its very end, when the machine gives it no time: its process and its file, no memory and
  // no port any more. The last thing that it does is to remove the file of that name.
  const { uid, gid } = await stat(joined.dataFolder);
  const ending = spawn("sh", ["-c", `sleep 0.7; rm -f "$1"`, "sh", file], { uid, gid });
  await once(ending, "spawn");
  await writeFile(file, postmasterFile.replace(/^\d+/, String(ending.pid)));
  await (await project.client()).join();
  if (ending.exitCode === null) await once(ending, "exit");
  expect(await readPostmasterFile(joined.dataFolder)).toMatchObject({ isReady: true });
});

test.concurrent("a server whose postmaster.pid goes while it starts is started again: nobody could find it", async (context) => {
  const { project, joined } = await stoppedProject(context);
  for (let isTaken = false; !isTaken; ) {
    const next = await project.client();
    next.startJoining();
    isTaken = await takeBeforeReady(joined.dataFolder);
    const again = await next.joined();
    expect(await query(again.url, "select 1 as one")).toEqual([{ one: 1 }]);
    expect(await readdir(joined.dataFolder)).toContain("postmaster.pid");
    await next.close();
    await untilStopped(again);
  }
});

/**
 * Without a pause between two looks: there are some milliseconds for it. False where the server was ready sooner: that is said in the
 * file, which stays as it is once it is out of the server's way, and is put back.
 */
async function takeBeforeReady(dataFolder: string): Promise<boolean> {
  const [file, taken] = [join(dataFolder, "postmaster.pid"), join(dataFolder, "taken.pid")];
  for (;;) {
    const seen = await readPostmasterFile(dataFolder);
    if (seen?.isReady) return false;
    if (seen === undefined) continue;
    await rename(file, taken);
    if (!parsePostmasterFile(await readFile(taken, "utf8")).isReady) return true;
    await rename(taken, file);
    return false;
  }
}

test.concurrent("a server that is stopped while whoever starts it is held up is started again", async (context) => {
  const { project, joined } = await stoppedProject(context);
  for (let hasMissedIt = false; !hasMissedIt; ) {
    const next = await project.client();
    next.startJoining();
    await until("a postmaster.pid", () => readPostmasterFile(joined.dataFolder));
    // Held up here, it learns only afterwards that the server came and went.
    next.signal("SIGSTOP");
    hasMissedIt = await until("its end, or our place at it", async () => {
      if ((await readPostmasterFile(joined.dataFolder)) === undefined) return "gone";
      const present = "select from pg_stat_activity where application_name = 'everbeat presence'";
      return (await query(joined.url, present).catch(() => [])).length > 0 && "present";
    }).then((outcome) => outcome === "gone");
    next.signal("SIGCONT");
    expect(await next.joined()).toMatchObject({ url: joined.url });
    await next.close();
    await untilStopped(joined);
  }
});

test.concurrent("a keeper that is held up while it stops a server does not take the next one for it", async (context) => {
  const project = await temporaryProject(context);
  const client = await project.client({ lingerMs: 0 });
  const joined = await client.join();
  await oneKeeperAtWork(project.folder, joined.url);
  const [keeper = 0] = await keepersOf(project.folder);
  client.startLeaving();
  await untilAsked(project.folder);
  const stoppers = [keeper, ...(await processesWith("pg_ctl", joined.dataFolder))];
  for (const stopper of stoppers) signalIfThere(stopper, "SIGSTOP");
  await untilStopped(joined);
  const next = await (await project.client()).join();
  const before = await query(next.url, startTime);
  for (const stopper of stoppers) signalIfThere(stopper, "SIGCONT");
  await until("the end of the first keeper", async () => !(await keepersOf(project.folder)).includes(keeper));
  expect(await query(next.url, startTime)).toEqual(before);
});

function signalIfThere(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {}
}

async function untilAsked(folder: string): Promise<void> {
  for (;;) {
    if (/received fast shutdown request/.test(await readFile(join(folder, "postgres.log"), "utf8"))) return;
  }
}

test.concurrent("a process that is held up while it makes the database joins the one that another made", async (context) => {
  const project = await temporaryProject(context);
  const [first, second] = [await project.client(), await project.client()];
  first.startJoining();
  const making = await until("initdb at work", async () => await halfMade(project.folder));
  first.signal("SIGSTOP");
  second.startJoining();
  await until("its work to be cleared away", async () => (await halfMade(project.folder)) !== making);
  first.signal("SIGCONT");
  const { url } = await second.joined();
  expect(await first.joined()).toMatchObject({ url });
});

async function halfMade(folder: string): Promise<string | undefined> {
  return (await readdir(folder).catch(() => [])).find((name) => name.startsWith("making-"));
}

test.concurrent("a server that is stopped for good while it is being started stays so, or is started again and kept", async (context) => {
  const project = await temporaryProject(context);
  const client = await project.client();
  client.startJoining();
  await untilMade(project.folder);
  await stopEmbeddedServer(project.folder);
  const { dataFolder } = await client.joined();
  await until("one or the other", async () => {
    if ((await readdir(project.folder)).includes("stopped"))
      return (await readPostmasterFile(dataFolder)) === undefined;
    return (await keepersOf(project.folder)).length === 1;
  });
});

/** Without a pause between two looks: its server is started at once. */
async function untilMade(folder: string): Promise<void> {
  while ((await realDataFolder(folder)) === undefined);
}

test.concurrent("a server that has no room for one more is waited for, and is not taken for one that is not there", async (context) => {
  const project = await temporaryProject(context);
  const { url, dataFolder } = await (await project.client()).join();
  await oneKeeperAtWork(project.folder, url);
  const others = await fillUp(url);
  const next = await project.client();
  next.startJoining();
  const refusals = async () =>
    (await readFile(join(project.folder, "postgres.log"), "utf8")).split("too many clients").length - 1;
  await until("refusals", async () => (await refusals()) >= 20);
  await Promise.all(others.map((other) => other.end()));
  expect(await next.joined()).toMatchObject({ url, dataFolder, adopted: true });
  expect(await readFile(join(project.folder, "postgres.log"), "utf8")).not.toMatch(/lock file/);
});

/** Until it takes nobody any more. */
async function fillUp(url: string): Promise<Client[]> {
  const clients: Client[] = [];
  for (;;) {
    const client = new Client(url);
    client.on("error", () => {});
    try {
      await client.connect();
    } catch {
      return clients;
    }
    clients.push(client);
  }
}

test.concurrent("what is left of a killed server is waited for by one keeper, not by ever more", async (context) => {
  const { project, joined } = await joinedProject(context);
  await oneKeeperAtWork(project.folder, joined.url);
  // A backend that stands still holds on to the memory of its server, and nobody can start another.
  const held = await holdBackend(joined, context);
  await killPostmaster(joined.dataFolder, "SIGKILL");
  const log = join(project.folder, "postgres.log");
  const refusals = async () =>
    (await readFile(log, "utf8")).split("\n").filter((line) => /is still in use|already exists/.test(line)).length;
  await until("some refusals", async () => (await refusals()) >= 8);
  // The one at work, and one that each of the two who try to start it sends along.
  expect((await keepersOf(project.folder)).length).toBeLessThanOrEqual(3);
  process.kill(held, "SIGKILL");
  await until("the server to be back", async () => (await query(joined.url, "select 1")).length === 1);
});

async function holdBackend({ url }: Joined, context: TestContext): Promise<number> {
  const client = new Client(url);
  client.on("error", () => {});
  await client.connect();
  context.onTestFinished(() => client.end().catch(() => {}));
  const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
  const pid = Number(rows[0]?.pid);
  process.kill(pid, "SIGSTOP");
  context.onTestFinished(() => signalIfThere(pid, "SIGKILL"));
  return pid;
}
