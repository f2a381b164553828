/** Project folders that are renamed or copied while their server runs, or after. */

import { execFile } from "node:child_process";
import { readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test, vi } from "vitest";
import { readPostmasterFile } from "../../src/database/embedded/server-files.ts";
import { everbeat } from "../cli/run-cli.ts";
import { query, until, untilStopped } from "../support/embedded-looks.ts";
import { keepersOf, oneKeeperAtWork, processesWith } from "../support/embedded-processes.ts";
import { joinedProject } from "../support/embedded-project.ts";

// Real servers, several at once, on a machine that has other work too.
vi.setConfig({ testTimeout: 180_000 });

const run = promisify(execFile);
const asRoot = test.skipIf(process.getuid?.() !== 0);

test.concurrent("a project that is renamed while its server runs has its data at the next start, which stops the server", async (context) => {
  const { project, joined } = await joinedProject(context, { inside: "before" });
  await query(joined.url, "create table kept as select 42 as answer");
  await oneKeeperAtWork(project.folder, joined.url);
  const before = await readPostmasterFile(joined.dataFolder);
  await rename(join(project.root, "before"), join(project.root, "after"));
  const folder = join(project.root, "after", ".everbeat");
  const again = await (await project.client({ folder })).join();
  expect(again).toMatchObject({ dataFolder: join(folder, "data"), adopted: false });
  expect(await query(again.url, "select * from kept")).toEqual([{ answer: 42 }]);
  // The one before was told to stop. It did not go on until PostgreSQL, which looks once a minute, missed its files.
  expect((await readPostmasterFile(again.dataFolder))?.processId).not.toBe(before?.processId);
  const log = await readFile(join(folder, "postgres.log"), "utf8");
  expect(log).toContain("received fast shutdown request");
  expect(log).not.toMatch(/lock file is invalid/);
  await until("the end of what ran there before", async () => {
    const left = [...(await keepersOf(project.folder)), ...(await processesWith("postgres", joined.dataFolder))];
    return left.length === 0;
  });
});

test.concurrent("a server whose project was renamed is stopped after the last process has left", async (context) => {
  const { project, client, joined } = await joinedProject(context, { inside: "before" });
  await oneKeeperAtWork(project.folder, joined.url);
  await rename(join(project.root, "before"), join(project.root, "after"));
  await client.close();
  await until("its end", async () => (await processesWith("postgres", joined.dataFolder)).length === 0);
  await until("the keeper's end", async () => (await keepersOf(project.folder)).length === 0);
});

asRoot.concurrent(
  "a copy of a closed project of root's does not share the database of the original",
  async (context) => {
    const { project, joined } = await joinedProject(context, { mode: 0o700, inside: "original" });
    expect(joined.dataFolder).toMatch(/^\/var\/lib\/everbeat\//);
    await run("cp", ["-a", join(project.root, "original"), join(project.root, "copy")]);
    const folder = join(project.root, "copy", ".everbeat");
    const failure = await (await project.client({ folder })).failure();
    expect(failure).toMatchObject({ code: "EMBEDDED_DATA_OF_ORIGINAL" });
    expect(failure.message).toContain(`rm ${join(folder, "data")}`);
    await rm(join(folder, "data"));
    const own = await (await project.client({ folder })).join();
    expect(own.dataFolder).not.toBe(joined.dataFolder);
    expect(await (await project.client()).join()).toMatchObject({ dataFolder: joined.dataFolder });
  },
);

asRoot.concurrent("the doctor does not say of a copied project's server that it is started", async (context) => {
  const { project, client, joined } = await joinedProject(context, { mode: 0o700, inside: "original" });
  await client.close();
  await untilStopped(joined);
  await run("cp", ["-a", join(project.root, "original"), join(project.root, "copy")]);
  const { stdout } = await everbeat(["doctor"], { cwd: join(project.root, "copy"), context });
  expect(stdout).toMatch(/^! embedded +.* did not run .* and was not started \(see database\)$/m);
  expect(stdout).toMatch(/^✗ database +.* leads to the database of the original/m);
});

asRoot.concurrent("a closed project of root's keeps its database when it is renamed", async (context) => {
  const { project, client, joined } = await joinedProject(context, { mode: 0o700, inside: "before" });
  await query(joined.url, "create table kept as select 42 as answer");
  await client.close();
  await untilStopped(joined);
  await rename(join(project.root, "before"), join(project.root, "after"));
  const after = await project.client({ folder: join(project.root, "after", ".everbeat") });
  const again = await after.join();
  expect(again).toMatchObject({ dataFolder: joined.dataFolder });
  expect(await query(again.url, "select * from kept")).toEqual([{ answer: 42 }]);
});
