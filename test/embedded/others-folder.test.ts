/** Root at work in the folder of another user, who swaps the folder itself, closes it, or puts pipes into it. */
import { execFile } from "node:child_process";
import { watch } from "node:fs";
import { chmod, chown, lstat, mkdir, readdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, type TestContext, test, vi } from "vitest";
import { handsFor } from "../../src/database/embedded/hands.ts";
import { readPostmasterFile } from "../../src/database/embedded/server-files.ts";
import { takeTurn } from "../../src/database/embedded/starting-turn.ts";
import { query, until, untilStopped } from "../support/embedded-looks.ts";
import { temporaryProject } from "../support/embedded-project.ts";
import {
  asRoot,
  expectUntouched,
  flipFolder,
  NOBODY,
  onlyAsRoot,
  projectOfAnother,
} from "../support/folder-of-another.ts";

// Real servers, several at once, on a machine that has other work too.
vi.setConfig({ testTimeout: 180_000 });

const run = promisify(execFile);

/** A folder of root's, and what was made, changed or removed in it since. */
async function watchedVault(root: string, context: TestContext) {
  const vault = join(root, "vault");
  await mkdir(vault);
  await writeFile(join(vault, "stopped"), "");
  const seen: unknown[] = [];
  const watcher = watch(vault, (...event) => seen.push(event));
  context.onTestFinished(() => watcher.close());
  return { vault, seen };
}

test("a folder that is a link half of the time never has root's own hands", async (context) => {
  onlyAsRoot(context);
  const { project, folder } = await projectOfAnother(context);
  const { vault } = await watchedVault(project.root, context);
  await flipFolder(folder, vault, context);
  const users = new Set<number | undefined>();
  for (let round = 0; round < 2_000; round++) {
    const hands = await handsFor(folder).catch(() => undefined);
    if (hands !== undefined) users.add(hands.account?.uid);
  }
  expect([...users]).toEqual([NOBODY]);
});

asRoot.concurrent(
  "a start in a folder that is a link half of the time changes nothing where the link leads",
  async (context) => {
    const { project, folder } = await projectOfAnother(context);
    const { vault, seen } = await watchedVault(project.root, context);
    const stopFlipping = await flipFolder(folder, vault, context);
    for (let round = 0; round < 100; round++) await takeTurn(join(folder, "starting"), async () => {}).catch(() => {});
    for (let round = 0; round < 10; round++) {
      const client = await project.client({ folder });
      client.startJoining();
      await until("its failure, or its progress", () => client.reports.length > 1);
      await client.kill("SIGKILL");
    }
    expect(seen).toEqual([]);
    expect(await readdir(vault)).toEqual(["stopped"]);
    await stopFlipping();
    const joined = await (await project.client({ folder })).join();
    expect(await query(joined.url, "select 1 as one")).toEqual([{ one: 1 }]);
  },
);

asRoot.concurrent(
  "the file of whoever starts the server is the owner's as well, while it is there",
  async (context) => {
    const { project, folder } = await projectOfAnother(context);
    const client = await project.client({ folder });
    client.startJoining();
    const turn = await until("the turn", () => lstat(join(folder, "starting")).catch(() => undefined));
    expect(turn.uid).toBe(NOBODY);
    await client.joined();
  },
);

asRoot.concurrent("a folder that its owner has closed to themselves is not root's to write in", async (context) => {
  const { project, home, folder } = await projectOfAnother(context);
  await mkdir(folder);
  await chown(folder, NOBODY, NOBODY);
  for (const mode of [0o555, 0o000]) {
    await chmod(folder, mode);
    const failure = await (await project.client({ folder })).failure();
    expect(failure).toMatchObject({ code: "EMBEDDED_FOLDER_NOT_WRITABLE" });
    expect(failure.message).toContain(`${folder} cannot be written by user ${NOBODY}: root writes there as that user`);
    expect(await readdir(folder)).toEqual([]);
  }
  await rm(folder, { recursive: true });
  await chmod(home, 0o555);
  expect(await (await project.client({ folder })).failure()).toMatchObject({ code: "EMBEDDED_FOLDER_NOT_WRITABLE" });
  expect(await readdir(home)).toEqual([]);
});

// The second lets in whoever is in root's group: whether the owner is among them is asked of the system.
asRoot.concurrent.for(["700", "710"])(
  "root does the work itself where a folder of root's keeps the owner out (mode %s)",
  async (mode, context) => {
    const { project, home, folder } = await projectOfAnother(context);
    await chmod(project.root, Number.parseInt(mode, 8));
    await mkdir(folder);
    await chown(folder, NOBODY, NOBODY);
    const joined = await (await project.client({ folder })).join();
    expect(await query(joined.url, "select 1 as one")).toEqual([{ one: 1 }]);
    expect(await readdir(home)).toEqual([".everbeat"]);
  },
);

test("a folder of root's own that another user moves away and back is worked in as that user", async (context) => {
  onlyAsRoot(context);
  const { project, folder } = await projectOfAnother(context);
  const { vault, seen } = await watchedVault(project.root, context);
  await mkdir(folder);
  const stopFlipping = await flipFolder(folder, vault, context);
  for (let round = 0; round < 300; round++) {
    const hands = await handsFor(folder).catch(() => undefined);
    await hands?.remove(join(folder, "stopped")).catch(() => {});
  }
  expect(seen).toEqual([]);
  expect(await readdir(vault)).toEqual(["stopped"]);
  await stopFlipping();
  expect(await (await project.client({ folder })).failure()).toMatchObject({ code: "EMBEDDED_FOLDER_NOT_WRITABLE" });
});

asRoot.concurrent("a file that is far too large is named, and not read into memory", async (context) => {
  const { project, folder } = await projectOfAnother(context);
  const client = await project.client({ folder });
  const joined = await client.join();
  await client.close();
  await untilStopped(joined);
  await truncate(join(joined.dataFolder, "PG_VERSION"), 1_500_000_000);
  expect(await (await project.client({ folder })).failure()).toMatchObject({ code: "EMBEDDED_FILE_FOREIGN" });
});

asRoot.concurrent("pipes in the place of its files hold nobody up", async (context) => {
  const { project, folder, treasury } = await projectOfAnother(context);
  const client = await project.client({ folder });
  const joined = await client.join();
  await client.close();
  await untilStopped(joined);
  const { dataFolder } = joined;
  for (const path of [
    join(folder, "postgres.log"),
    ...["postmaster.pid", "PG_VERSION"].map((name) => join(dataFolder, name)),
  ]) {
    await run("mv", [path, `${path}-kept`]).catch(() => {});
    await run("mkfifo", [path]);
    await chown(path, NOBODY, NOBODY);
    const failure = await (await project.client({ folder })).failure();
    expect(failure).toMatchObject({ code: "EMBEDDED_FILE_FOREIGN" });
    expect(failure.message).toContain(path);
    await rm(path);
    await run("mv", [`${path}-kept`, path]).catch(() => {});
  }
  expect(await (await project.client({ folder })).join()).toMatchObject({ dataFolder });
  await expectUntouched(treasury);
});

asRoot.concurrent(
  "what root has in its environment is not shown to the user whose programs it starts",
  async (context) => {
    const { project, folder } = await projectOfAnother(context);
    const secret = "for-root-alone";
    const joined = await (await project.client({ folder, environment: { SECRET_OF_ROOT: secret } })).join();
    const server = await readPostmasterFile(joined.dataFolder);
    const environment = await readFile(`/proc/${server?.processId}/environ`, "utf8");
    expect(environment).toContain("PATH=");
    expect(environment).not.toContain(secret);
  },
);

asRoot.concurrent("root makes no short name for a socket where another user keeps temporary files", async (context) => {
  const project = await temporaryProject(context, { inside: "x".repeat(200) });
  const temporary = join(project.root, "tmp");
  await mkdir(temporary);
  await chown(temporary, NOBODY, NOBODY);
  const joined = await (await project.client({ environment: { TMPDIR: temporary } })).join();
  expect(await query(joined.url, "select 1 as one")).toEqual([{ one: 1 }]);
  expect(await readdir(temporary)).toEqual([]);
});
