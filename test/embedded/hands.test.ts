/** What root has another user's processes do is done exactly, or fails, with the programs of every system. */
import { chown, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, type TestContext } from "vitest";
import { handsOf } from "../../src/database/embedded/hands.ts";
import { asRoot, NOBODY } from "../support/folder-of-another.ts";

async function folderOfAnother({ onTestFinished }: TestContext): Promise<string> {
  const folder = await mkdtemp("/tmp/everbeat-hands-");
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await chown(folder, NOBODY, NOBODY);
  return folder;
}

asRoot.for(["linux", "darwin"] as const)(
  "a rename as on %s replaces a file, and no folder that holds something",
  async (platform, context) => {
    const folder = await folderOfAnother(context);
    const hands = handsOf({ uid: NOBODY, gid: NOBODY }, { platform });
    const [log, old] = [join(folder, "postgres.log"), join(folder, "postgres.log.1")];
    for (const text of ["first", "second"]) {
      await hands.write(log, text);
      await hands.rename(log, old);
      expect(await readFile(old, "utf8")).toBe(text);
    }
    const [made, there] = [join(folder, "made"), join(folder, "there")];
    for (const path of [made, there]) {
      await hands.makeClosedFolder(path);
      await hands.write(join(path, "whose"), path);
    }
    await expect(hands.rename(made, there)).rejects.toMatchObject({
      code: expect.stringMatching(/^(ENOTEMPTY|EEXIST)$/),
    });
    expect(await readdir(there)).toEqual(["whose"]);
    expect(await readFile(join(there, "whose"), "utf8")).toBe(there);
    expect(await readFile(join(made, "whose"), "utf8")).toBe(made);
    await hands.remove(there);
    await hands.rename(made, there);
    expect(await readFile(join(there, "whose"), "utf8")).toBe(made);
    await expect(hands.rename(made, there)).rejects.toMatchObject({ code: "ENOENT" });
  },
);

asRoot("an empty file is made only where there is nothing, and also no link to nothing", async (context) => {
  const folder = await folderOfAnother(context);
  const hands = handsOf({ uid: NOBODY, gid: NOBODY });
  const path = join(folder, "starting");
  await hands.create(path);
  expect(await readFile(path, "utf8")).toBe("");
  await expect(hands.create(path)).rejects.toMatchObject({ code: "EEXIST" });
  await hands.remove(path);
  await hands.symlink(join(folder, "nothing"), path);
  await expect(hands.create(path)).rejects.toMatchObject({ code: "EEXIST" });
  await expect(hands.create(join(folder, "gone", "starting"))).rejects.toMatchObject({ code: "ENOENT" });
  await writeFile(join(folder, "root's"), "", { mode: 0o600 });
  await expect(hands.append(join(folder, "root's"), "text")).rejects.toMatchObject({ code: "EACCES" });
  await mkdir(join(folder, "closed"), { mode: 0o700 });
  await expect(hands.create(join(folder, "closed", "file"))).rejects.toMatchObject({ code: "EACCES", writer: NOBODY });
});
