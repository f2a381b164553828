// A project of another user, in which root works, and beside it a folder of root's that the other user would like to reach.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, chown, lstat, mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, type TestContext, test } from "vitest";
import { temporaryProject } from "./embedded-project.ts";

export const NOBODY = 65534;
export const asRoot = test.skipIf(process.getuid?.() !== 0);
/** For tests that stand in the list of protections by the name of a plain test. */
export const onlyAsRoot = ({ skip }: TestContext) => skip(process.getuid?.() !== 0, "only root can do this");

export async function projectOfAnother(context: TestContext) {
  const project = await temporaryProject(context);
  const home = join(project.root, "home");
  const treasury = join(project.root, "treasury");
  await mkdir(join(treasury, "data"), { recursive: true });
  await chmod(treasury, 0o711);
  await writeFile(join(treasury, "secret"), "untouched", { mode: 0o600 });
  await mkdir(home);
  await chown(home, NOBODY, NOBODY);
  return { project, home, folder: join(home, ".everbeat"), treasury };
}

export async function expectUntouched(treasury: string): Promise<void> {
  expect((await readdir(treasury)).sort()).toEqual(["data", "secret"]);
  expect(await stat(join(treasury, "data"))).toMatchObject({ uid: 0 });
  const folder = await stat(treasury);
  expect({ uid: folder.uid, mode: folder.mode & 0o777 }).toEqual({ uid: 0, mode: 0o711 });
  const secret = await stat(join(treasury, "secret"));
  expect({ uid: secret.uid, mode: secret.mode & 0o777 }).toEqual({ uid: 0, mode: 0o600 });
  expect(await readFile(join(treasury, "secret"), "utf8")).toBe("untouched");
}

/** Runs a script of Node's in the name of the other user, until the test is over; resolves once it has said something. */
export async function runAsAnother(script: string, args: string[], context: TestContext) {
  const child = spawn(process.execPath, ["-e", script, ...args], { uid: NOBODY, gid: NOBODY, cwd: "/" });
  context.onTestFinished(() => void child.kill("SIGKILL"));
  await once(child.stdout, "data");
  return child;
}

/** Has the folder and a link to another, each for some microseconds, in turns. */
const FLIP = `
  const fs = require("node:fs");
  const [folder, target] = process.argv.slice(1);
  fs.mkdirSync(folder, { recursive: true });
  fs.symlinkSync(target, folder + "-link");
  console.log("ready");
  for (;;) {
    try { fs.renameSync(folder, folder + "-aside"); } catch {}
    try { fs.renameSync(folder + "-link", folder); } catch {}
    try { fs.renameSync(folder, folder + "-link"); } catch {}
    try { fs.renameSync(folder + "-aside", folder); } catch {}
  }`;

/** Until the function that it returns is called, which leaves the folder in its place. */
export async function flipFolder(folder: string, target: string, context: TestContext): Promise<() => Promise<void>> {
  const flipper = await runAsAnother(FLIP, [folder, target], context);
  return async () => {
    flipper.kill("SIGKILL");
    if (flipper.signalCode === null) await once(flipper, "exit");
    if ((await lstat(folder).catch(() => undefined))?.isDirectory()) return;
    await rm(folder, { force: true });
    await rename(`${folder}-aside`, folder);
  };
}
