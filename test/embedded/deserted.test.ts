/** Databases under /var/lib/everbeat whose projects were moved, restored or deleted. */
import { execFile } from "node:child_process";
import { chown, lchown, mkdir, readdir, readlink, rename, rm, symlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect, type TestContext, test, vi } from "vitest";
import { removeDeserted } from "../../src/database/embedded/deserted-data.ts";
import { query, until, untilStopped } from "../support/embedded-looks.ts";
import { keepersOf } from "../support/embedded-processes.ts";
import { joinedProject, temporaryProject } from "../support/embedded-project.ts";
import { asRoot, NOBODY, onlyAsRoot } from "../support/folder-of-another.ts";

// Real servers, several at once, on a machine that has other work too.
vi.setConfig({ testTimeout: 180_000 });

const run = promisify(execFile);
const copy = (from: string, to: string) => run("cp", ["-a", from, to]);

/** A project of root's that nobody else can enter, with a table in its database, and its server stopped. */
async function closedProject(context: TestContext) {
  const { project, client, joined } = await joinedProject(context, { mode: 0o700, inside: "before/project" });
  expect(joined.dataFolder).toMatch(/^\/var\/lib\/everbeat\//);
  await query(joined.url, "create table kept as select 42 as answer");
  await client.close();
  await untilStopped(joined);
  // Until then, the file of its turn is there, and could go while the project is copied.
  await until("the keeper to leave", async () => (await keepersOf(project.folder)).length === 0);
  return { project, dataFolder: joined.dataFolder, place: join(project.root, "before/project") };
}

type Project = Awaited<ReturnType<typeof temporaryProject>>;

async function expectKept(project: Project, folder: string, dataFolder: string): Promise<void> {
  const again = await (await project.client({ folder })).join();
  expect(again).toMatchObject({ dataFolder });
  expect(await query(again.url, "select * from kept")).toEqual([{ answer: 42 }]);
}

async function startAnother(context: TestContext): Promise<void> {
  const other = await temporaryProject(context, { mode: 0o700 });
  await (await other.client()).join();
}

/** What is beside a database, or in its place. */
const besides = async (dataFolder: string) =>
  (await readdir(dirname(dataFolder)).catch(() => [])).filter((name) => name.startsWith(basename(dataFolder)));

/** The name under which a database is set aside. */
async function asideOf(dataFolder: string): Promise<string> {
  const name = (await besides(dataFolder)).find((beside) => beside.includes(".deserted-"));
  if (name === undefined) throw new Error(`${dataFolder} is not set aside`);
  return join(dirname(dataFolder), name);
}

/** As if that many days had passed since. */
async function passDays(dataFolder: string, days: number): Promise<string> {
  const day = new Date(Date.now() - days * 24 * 60 * 60 * 1_000).toISOString().slice(0, 10);
  const aside = `${dataFolder}.deserted-${day}`;
  await rename(await asideOf(dataFolder), aside);
  return aside;
}

type Move = (place: string, root: string) => Promise<string>;

const MOVES: Record<string, Move> = {
  "was restored from a backup": async (place, root) => {
    await copy(place, join(root, "backup"));
    await rm(place, { recursive: true });
    await copy(join(root, "backup"), place);
    await rm(join(root, "backup"), { recursive: true });
    return place;
  },
  "is on a disk that is not there": async (place, root) => {
    await copy(join(place, ".."), join(root, "disk"));
    await rm(join(place, ".."), { recursive: true });
    await mkdir(join(place, ".."));
    return join(root, "disk/project");
  },
  "has another folder's name in its path": async (place, root) => {
    await rename(join(place, ".."), join(root, "after"));
    return join(root, "after/project");
  },
};

asRoot.concurrent.for(Object.entries(MOVES))(
  "a database stays in its place when its project %s",
  async ([, move], context) => await expectToStay(move, context),
);

test("a database stays in its place when its project was moved to another disk", async (context) => {
  onlyAsRoot(context);
  await expectToStay(async (place, root) => {
    await copy(place, join(root, "elsewhere"));
    await rm(place, { recursive: true });
    return join(root, "elsewhere");
  }, context);
});

/** While others start. `move` says where the project is then. */
async function expectToStay(move: Move, context: TestContext): Promise<void> {
  const { project, dataFolder, place } = await closedProject(context);
  const now = await move(place, project.root);
  for (let start = 0; start < 2; start++) await startAnother(context);
  expect(await besides(dataFolder)).toContain(basename(dataFolder));
  await expectKept(project, join(now, ".everbeat"), dataFolder);
}

asRoot.concurrent(
  "a database whose link alone was moved is set aside, and is back when the link is used",
  async (context) => {
    const { project, dataFolder, place } = await closedProject(context);
    const elsewhere = join(project.root, "elsewhere");
    await copy(join(place, ".everbeat"), elsewhere);
    await rm(join(place, ".everbeat"), { recursive: true });
    await startAnother(context);
    expect(await asideOf(dataFolder)).toMatch(/\.deserted-\d{4}-\d\d-\d\d$/);
    await expectKept(project, elsewhere, dataFolder);
  },
);

asRoot.concurrent("a link of another user brings back no database that was set aside", async (context) => {
  const { project, dataFolder, place } = await closedProject(context);
  await rm(join(place, ".everbeat"), { recursive: true });
  await startAnother(context);
  const aside = await passDays(dataFolder, 20);
  const folder = join(project.root, "another", ".everbeat");
  await mkdir(folder, { recursive: true });
  await symlink(dataFolder, join(folder, "data"));
  for (const path of [dirname(folder), folder]) await chown(path, NOBODY, NOBODY);
  await lchown(join(folder, "data"), NOBODY, NOBODY);
  expect(await (await project.client({ folder })).failure()).toMatchObject({ code: "EMBEDDED_FOLDER_OF_ANOTHER_USER" });
  expect(await asideOf(dataFolder)).toBe(aside);
});

asRoot.concurrent("a database is not set aside under a project that uses it just then", async (context) => {
  const { project, dataFolder, place } = await closedProject(context);
  const elsewhere = join(project.root, "elsewhere");
  await copy(join(place, ".everbeat"), elsewhere);
  await rm(join(place, ".everbeat"), { recursive: true });
  const client = await project.client({ folder: elsewhere });
  client.startJoining();
  while (!client.reports.some(({ kind }) => kind === "joined" || kind === "failed")) await removeDeserted();
  const joined = await client.joined();
  await removeDeserted();
  expect(joined).toMatchObject({ dataFolder });
  expect(await besides(dataFolder)).toContain(basename(dataFolder));
  expect(await query(joined.url, "select * from kept")).toEqual([{ answer: 42 }]);
});

test("the database of a deleted `.everbeat` is removed a month later", async (context) => {
  onlyAsRoot(context);
  const { dataFolder, place } = await closedProject(context);
  await rm(join(place, ".everbeat"), { recursive: true });
  await startAnother(context);
  const aside = await passDays(dataFolder, 29);
  await startAnother(context);
  expect(await asideOf(dataFolder)).toBe(aside);
  await passDays(dataFolder, 32);
  await startAnother(context);
  await expect(readdir(dirname(dataFolder))).rejects.toThrow(/ENOENT/);
});

asRoot.concurrent("the database before the one that was begun anew is removed in the same way", async (context) => {
  const { project, dataFolder, place } = await closedProject(context);
  await rm(join(place, ".everbeat"), { recursive: true });
  const anew = await (await project.client()).join();
  expect(anew.dataFolder).not.toBe(dataFolder);
  await startAnother(context);
  await passDays(dataFolder, 32);
  await startAnother(context);
  expect(await besides(dataFolder)).toEqual([]);
  expect(await besides(anew.dataFolder)).toContain(basename(anew.dataFolder));
  expect(await query(anew.url, "select 1 as one")).toEqual([{ one: 1 }]);
});

asRoot.concurrent("a removal that was cut short is finished by the next start", async (context) => {
  const { dataFolder, place } = await closedProject(context);
  // The folder goes last, and others start at the same time.
  await rm(`${dataFolder}.linked`);
  await rm(join(place, ".everbeat"), { recursive: true });
  await rm(join(dataFolder, "base"), { recursive: true });
  await rename(dataFolder, `${dataFolder}.removing`);
  await startAnother(context);
  await expect(readdir(dirname(dataFolder))).rejects.toThrow(/ENOENT/);
});

asRoot.concurrent(
  "a database whose maker was killed before the link was there is found by the next start",
  async (context) => {
    const { project, dataFolder, place } = await closedProject(context);
    // Nobody has used it yet, as far as that maker had come.
    for (const path of [join(place, ".everbeat/data"), `${dataFolder}.linked`, `${dataFolder}.project`]) await rm(path);
    await startAnother(context);
    const joined = await (await project.client()).join();
    expect(joined).toMatchObject({ dataFolder });
    expect(await readlink(join(place, ".everbeat/data"))).toBe(dataFolder);
  },
);

asRoot.concurrent(
  "another user's link to a database of root's, or of a third user's, is not followed",
  async (context) => {
    const { project, dataFolder, place } = await closedProject(context);
    await rm(join(place, ".everbeat"), { recursive: true });
    // One who is known to the system has the database in the project, another has it under /var/lib/everbeat.
    const thirds = [1, 2_000].map(async (uid) => {
      const third = await temporaryProject(context, { uid });
      return (await (await third.client()).join()).dataFolder;
    });
    for (const [index, target] of [dataFolder, ...(await Promise.all(thirds))].entries()) {
      const folder = join(project.root, `link-${index}`, ".everbeat");
      await mkdir(folder, { recursive: true });
      await symlink(target, join(folder, "data"));
      for (const path of [dirname(folder), folder]) await chown(path, NOBODY, NOBODY);
      await lchown(join(folder, "data"), NOBODY, NOBODY);
      const failure = await (await project.client({ folder })).failure();
      expect(failure).toMatchObject({ code: "EMBEDDED_FOLDER_OF_ANOTHER_USER" });
    }
  },
);
