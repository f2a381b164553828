/** Root at work in the folder of another user, who puts links in root's way. */
import { chown, lchown, lstat, mkdir, readdir, rm, stat, symlink } from "node:fs/promises";
import { join } from "node:path";
import { expect, vi } from "vitest";
import { stopEmbeddedServer } from "../../src/database/embedded/embedded-server.ts";
import { query, untilStopped } from "../support/embedded-looks.ts";
import { asRoot, expectUntouched, NOBODY, projectOfAnother, runAsAnother } from "../support/folder-of-another.ts";

// Real servers, several at once, on a machine that has other work too.
vi.setConfig({ testTimeout: 180_000 });

/** Puts a link, made beforehand, in the place of each new `making-*` that has a `data` in it, five times. */
const SWAP = `
  const fs = require("node:fs");
  const [folder, treasury] = process.argv.slice(1);
  fs.mkdirSync(folder, { recursive: true });
  const seen = new Set();
  for (let swap = 0; swap < 5; swap++) fs.symlinkSync(treasury, folder + "/link-" + swap);
  console.log("ready");
  for (let swaps = 0; swaps < 5; ) {
    for (const name of fs.readdirSync(folder)) {
      if (!name.startsWith("making-") || seen.has(name)) continue;
      const path = folder + "/" + name;
      while (fs.existsSync(path) && !fs.existsSync(path + "/data"));
      seen.add(name);
      try {
        fs.renameSync(path, folder + "/taken-" + swaps);
        fs.renameSync(folder + "/link-" + swaps, path);
        swaps++;
      } catch {}
    }
  }`;

asRoot.concurrent(
  "a folder that is swapped for a link while root makes the database leads root nowhere",
  async (context) => {
    const { project, folder, treasury } = await projectOfAnother(context);
    const swapper = await runAsAnother(SWAP, [folder, treasury], context);
    // Each start may fail or not; the last one, undisturbed, does not.
    for (let isOver = false; !isOver; ) {
      isOver = swapper.exitCode !== null;
      const client = await project.client({ folder });
      client.startJoining();
      await client.joined().catch((error: Error) => expect(isOver, error.message).toBe(false));
      await client.kill("SIGKILL");
      await stopEmbeddedServer(folder);
      if (!isOver) await rm(join(folder, "data"), { recursive: true, force: true });
    }
    await expectUntouched(treasury);
  },
);

asRoot.concurrent("links in the place of its files lead root nowhere", async (context) => {
  const { project, folder, treasury } = await projectOfAnother(context);
  const client = await project.client({ folder });
  const joined = await client.join();
  const secret = join(treasury, "secret");
  const plant = async (path: string) => {
    await rm(path, { force: true });
    await symlink(secret, path);
    await lchown(path, NOBODY, NOBODY);
  };
  await plant(join(folder, "stopped"));
  await stopEmbeddedServer(folder);
  await untilStopped(joined);
  await client.kill("SIGKILL");
  expect((await lstat(join(folder, "stopped"))).isFile()).toBe(true);

  await plant(join(joined.dataFolder, "everbeat-place"));
  await plant(join(folder, "postgres.log"));
  await (await project.client({ folder })).failure();
  await rm(join(folder, "postgres.log"));
  const again = await (await project.client({ folder })).join();
  expect(await query(again.url, "select 1 as one")).toEqual([{ one: 1 }]);
  expect(await lstat(join(joined.dataFolder, "everbeat-place"))).toMatchObject({ uid: NOBODY });
  await expectUntouched(treasury);
});

asRoot.concurrent.for([
  ["root's", 0],
  ["a third user's", 12_345],
] as const)("a folder that is another user's link to a folder of %s is refused", async ([, uid], context) => {
  const { project, folder, treasury } = await projectOfAnother(context);
  const target = join(project.root, "target");
  await mkdir(target);
  await chown(target, uid, uid);
  for (const [path, owner] of [
    [target, uid],
    [treasury, 0],
  ] as const) {
    await rm(folder, { force: true });
    await symlink(path, folder);
    await lchown(folder, NOBODY, NOBODY);
    const client = await project.client({ folder });
    expect(await client.failure()).toMatchObject({ code: "EMBEDDED_FOLDER_OF_ANOTHER_USER" });
    expect((await stat(path)).uid).toBe(owner);
  }
  expect(await readdir(target)).toEqual([]);
  await expectUntouched(treasury);
});

asRoot.concurrent(
  "what root starts in the folder of another user is that user's, to the last file",
  async (context) => {
    const { project, home, folder } = await projectOfAnother(context);
    const client = await project.client({ folder });
    const joined = await client.join();
    await client.close();
    await untilStopped(joined);
    const others: string[] = [];
    for (const entry of await readdir(home, { recursive: true, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name);
      const { uid } = await lstat(path).catch(() => ({ uid: NOBODY }));
      if (uid !== NOBODY) others.push(path);
    }
    expect(others).toEqual([]);
    expect((await stat(folder)).uid).toBe(NOBODY);
  },
);
