/** Other users of the machine, who listen where the server was, or write where it is. */
import { once } from "node:events";
import { chmod, lstat, mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import pg from "pg";
import { expect, type TestContext, test, vi } from "vitest";
import { ownConnections } from "../../src/database/connections.ts";
import { joinEmbeddedServer } from "../../src/database/embedded/embedded-server.ts";
import { type Joined, query, until, untilStopped } from "../support/embedded-looks.ts";
import { keepersOf, killKeeper, killPostmaster } from "../support/embedded-processes.ts";
import { joinedProject, temporaryProject } from "../support/embedded-project.ts";
import { everbeatWithoutPackage, plantPackage } from "../support/planted-package.ts";

// Real servers, several at once, on a machine that has other work too.
vi.setConfig({ testTimeout: 180_000 });

const NOBODY = 65534;
const asRoot = test.skipIf(process.getuid?.() !== 0);
const portOf = ({ url }: Joined) => Number(new URL(url).port);

/** With a server that was killed, together with all who would start it again. */
async function deadServer(context: TestContext) {
  const project = await temporaryProject(context);
  // A keeper that is spawned in between must not stop it in good order first.
  const client = await project.client({ lingerMs: 60_000 });
  const joined = await client.join();
  await killKeeper(project.folder, joined.url);
  await client.kill("SIGKILL");
  for (const keeper of await keepersOf(project.folder)) process.kill(keeper, "SIGKILL");
  await killPostmaster(joined.dataFolder, "SIGKILL");
  return { project, joined };
}

/** Takes the port as soon as it is free, and asks whoever comes for the password in clear text. */
async function greedyStranger(port: number, context: TestContext) {
  const heard: string[] = [];
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.on("data", (chunk) => heard.push(chunk.toString("latin1")));
    socket.write(Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 3]));
  });
  context.onTestFinished(() => void server.close());
  await until("the port", async () => {
    server.listen(port, "127.0.0.1");
    return await once(server, "listening").catch(() => undefined);
  });
  return heard;
}

test.concurrent("whoever listens on the port of a server that has died is told nothing", async (context) => {
  const { project, joined } = await deadServer(context);
  const heard = await greedyStranger(portOf(joined), context);

  const connections = ownConnections({ urls: [joined.url], role: "any" }, { max: 1 });
  context.onTestFinished(() => connections.close());
  await expect(connections.dedicated()).rejects.toThrow();

  const again = await (await project.client()).join();
  expect(again.url).toBe(joined.url);
  expect(await query(again.url, "select 1 as one")).toEqual([{ one: 1 }]);
  expect(heard).toEqual([]);
});

test.concurrent("the server is reached by a socket in its closed folder, and by its port for other programs", async (context) => {
  const project = await temporaryProject(context);
  const server = await joinEmbeddedServer({ folder: project.folder, lingerMs: 250 });
  context.onTestFinished(() => server.close());
  const { port } = new URL(server.url);
  expect((await stat(server.dataFolder)).mode & 0o777).toBe(0o700);
  expect((await lstat(join(server.dataFolder, `.s.PGSQL.${port}`))).isSocket()).toBe(true);
  expect(server.url).toContain(`@${encodeURIComponent(server.dataFolder)}:${port}/`);
  expect(server.url).toMatch(/\?require_auth=scram-sha-256$/);
  const address = "select inet_server_addr()::text as address";
  expect(await query(server.url, address)).toEqual([{ address: null }]);
  expect(await query(server.tcpUrl ?? "no port", address)).toEqual([{ address: "127.0.0.1/32" }]);
});

asRoot.concurrent.for([0, NOBODY])(
  "user %s has a server under a path that is too long for a socket",
  async (uid, context) => {
    const project = await temporaryProject(context, { uid, inside: "x".repeat(200) });
    const client = await project.client({ uid });
    const joined = await client.join();
    const link = decodeURIComponent(/@([^:]+):/.exec(joined.url)?.[1] ?? "");
    expect(link.length).toBeLessThan(85);
    expect((await lstat(join(link, ".."))).mode & 0o777).toBe(0o700);
    expect(await query(joined.url, "select 1 as one")).toEqual([{ one: 1 }]);
    await client.close();
    await untilStopped(joined);
  },
);

asRoot.concurrent("a short name in a folder that others could write is not used", async (context) => {
  const project = await temporaryProject(context, { uid: NOBODY, inside: "x".repeat(200) });
  const temporary = join(project.root, "tmp");
  await mkdir(join(temporary, `everbeat-${NOBODY}`), { recursive: true });
  await chmod(join(temporary, `everbeat-${NOBODY}`), 0o777);
  const client = await project.client({ uid: NOBODY, environment: { TMPDIR: temporary } });
  const joined = await client.join();
  expect(joined.url).not.toContain(encodeURIComponent(temporary));
});

test.concurrent("a data folder that others can write is refused", async (context) => {
  const { project, joined } = await joinedProject(context);
  await chmod(joined.dataFolder, 0o777);
  expect(await (await project.client()).failure()).toMatchObject({ code: "EMBEDDED_DATA_OPEN" });
  await chmod(joined.dataFolder, 0o700);
});

test.concurrent("on a file system without sockets it is reached by its port, by SCRAM only", async (context) => {
  const { project, joined } = await deadServer(context);
  const socket = join(joined.dataFolder, `.s.PGSQL.${portOf(joined)}`);
  await rm(socket);
  // What PostgreSQL meets there is the same: it cannot make one.
  await mkdir(join(socket, "not empty"), { recursive: true });
  const again = await (await project.client()).join();
  expect(again.url).toMatch(/@127\.0\.0\.1:\d+\/everbeat\?require_auth=scram-sha-256$/);
  expect(await query(again.url, "select 1 as one")).toEqual([{ one: 1 }]);
});

test.concurrent("a socket that a killed server left behind keeps no other from starting, also with the number of a stranger", async (context) => {
  const { project, joined } = await deadServer(context);
  const lock = join(joined.dataFolder, `.s.PGSQL.${portOf(joined)}.lock`);
  await writeFile(lock, (await readFile(lock, "utf8")).replace(/^\d+/, String(process.pid)));
  await rm(join(joined.dataFolder, "postmaster.pid"));
  expect(await (await project.client()).join()).toMatchObject({ url: joined.url, adopted: false });
});

test.concurrent("a server whose postmaster.pid was removed is stopped before another starts on its data", async (context) => {
  const { project, joined } = await joinedProject(context);
  const before = new pg.Client(joined.url);
  const ended = new Promise((resolve) => before.on("error", resolve));
  await before.connect();
  await rm(join(joined.dataFolder, "postmaster.pid"));
  const again = await (await project.client()).join();
  await ended;
  expect(await query(again.url, "select 1 as one")).toEqual([{ one: 1 }]);
});

asRoot.concurrent("a package that another user put above the folder is not run", async (context) => {
  const project = await temporaryProject(context, { inside: "shared/project" });
  const checkout = await everbeatWithoutPackage(join(project.root, "elsewhere"));
  const modules = join(project.root, "shared/node_modules");
  const planted = await plantPackage(modules, NOBODY);
  const failure = await (await project.client({ checkout })).failure();
  expect(failure).toMatchObject({ code: "EMBEDDED_PACKAGE_FOREIGN" });
  expect(failure.message).toContain(modules);
  expect(await planted.ranAs()).toEqual([]);
});

asRoot.concurrent("a package that another user put above Everbeat itself is not run", async (context) => {
  const project = await temporaryProject(context);
  const checkout = await everbeatWithoutPackage(join(project.root, "shared/everbeat"));
  const planted = await plantPackage(join(project.root, "shared/node_modules"), NOBODY);
  expect(await (await project.client({ checkout })).failure()).toMatchObject({ code: "EMBEDDED_PACKAGE_FOREIGN" });
  expect(await planted.ranAs()).toEqual([]);
});
