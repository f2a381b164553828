/** The programs of another user, who has also written all that lies beside them: root runs them as that user, and trusts nothing of it. */
import { execFile } from "node:child_process";
import { chmod, chown, mkdir, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, type TestContext, test, vi } from "vitest";
import { handsFor } from "../../src/database/embedded/hands.ts";
import { findServerAccount } from "../../src/database/embedded/server-account.ts";
import { readPostmasterFile } from "../../src/database/embedded/server-files.ts";
import { temporaryProject } from "../support/embedded-project.ts";
import { asRoot, expectUntouched, NOBODY, onlyAsRoot, projectOfAnother } from "../support/folder-of-another.ts";
import { everbeatWithoutPackage, plantPackage } from "../support/planted-package.ts";

// Real servers, several at once, on a machine that has other work too.
vi.setConfig({ testTimeout: 180_000 });

const run = promisify(execFile);
const SYSTEM_FOLDER = "/var/lib/everbeat";
/** In no list of users. */
const UNKNOWN = 12_345;
const ADM = 4;
const UP = "../".repeat(12);

/** As root, with a package of the folder's owner, whose programs say no version. */
async function startWithPackage(context: TestContext, version: string, prepare: (root: string) => Promise<unknown>) {
  const { project, home, folder, treasury } = await projectOfAnother(context);
  await mkdir(folder);
  await chown(folder, NOBODY, NOBODY);
  const left = async () => (await readdir(SYSTEM_FOLDER)).filter((name) => name.includes(version));
  context.onTestFinished(async () => {
    for (const name of await left()) await rm(join(SYSTEM_FOLDER, name), { recursive: true });
  });
  const checkout = await everbeatWithoutPackage(join(project.root, "elsewhere"));
  const planted = await plantPackage(join(home, "node_modules"), NOBODY, async (root) => {
    await writeFile(join(root, "package.json"), JSON.stringify({ version, main: "index.js" }));
    await prepare(root);
  });
  const start = async () => await (await project.client({ checkout, folder })).failure();
  return { project, home, treasury, planted, start, left };
}

const listLinks = (root: string, target: string, source = "native/bin/postgres") =>
  writeFile(join(root, "native/pg-symlinks.json"), JSON.stringify([{ source, target }]));

asRoot.concurrent("the links that a package of its owner lists are made nowhere else", async (context) => {
  await expectNoLinkOutside(context, 0o755);
});

test("the links that a package lists, whose owner is kept out, are made nowhere else", async (context) => {
  onlyAsRoot(context);
  await expectNoLinkOutside(context, 0o700);
});

async function expectNoLinkOutside(context: TestContext, mode: number): Promise<void> {
  const { project, treasury, start, planted } = await startWithPackage(
    context,
    `18.0.0-links-${mode}`,
    async (root) => {
      await listLinks(root, join(UP, root, "../../../../treasury/planted"));
    },
  );
  await chmod(project.root, mode);
  const failure = await start();
  await expectUntouched(treasury);
  expect(failure).toMatchObject({ code: "EMBEDDED_PACKAGE_DAMAGED" });
  await listLinks(planted.root, "native/bin/planted", join(UP, treasury, "secret"));
  expect(await start()).toMatchObject({ code: "EMBEDDED_PACKAGE_DAMAGED" });
}

asRoot.concurrent("a link in a package is no way out of its copy", async (context) => {
  const name = "planted-by-a-package";
  context.onTestFinished(() => rm(join(SYSTEM_FOLDER, name), { force: true }));
  const { project, start } = await startWithPackage(context, "18.0.0-up", async (root) => {
    await symlink("..", join(root, "up"));
    await listLinks(root, `up/${name}`);
  });
  // Root copies what its owner cannot reach.
  for (const mode of [0o755, 0o700]) {
    await chmod(project.root, mode);
    await start();
    expect(await readdir(SYSTEM_FOLDER)).not.toContain(name);
  }
});

asRoot.concurrent("what a package has in the place of a program is not made executable", async (context) => {
  const { project, treasury, start } = await startWithPackage(context, "18.0.0-mode", async (root) => {
    await rm(join(root, "native/bin/postgres"));
    await symlink(join(root, "../../../../treasury/secret"), join(root, "native/bin/postgres"));
  });
  await chmod(project.root, 0o700);
  await start();
  await chmod(project.root, 0o755);
  await expectUntouched(treasury);
});

asRoot.concurrent("the copy of another user's package is that user's, to the last file", async (context) => {
  const { planted, start, left } = await startWithPackage(context, "18.0.0-copy", async (root) => {
    await symlink("postgres", join(root, "native/bin/postmaster"));
  });
  expect(await start()).toMatchObject({ code: "EMBEDDED_BINARIES_UNUSABLE" });
  expect(await left()).toEqual([`postgres-18.0.0-copy-of-${NOBODY}`]);
  const copy = join(SYSTEM_FOLDER, `postgres-18.0.0-copy-of-${NOBODY}`);
  const { stdout } = await run("find", [copy, "!", "-user", String(NOBODY)]);
  expect(stdout).toBe("");
  expect(await readdir(join(copy, "native/bin"))).toContain("postmaster");
  expect(new Set(await planted.ranAs())).toEqual(new Set([String(NOBODY)]));
});

asRoot.concurrent("the programs of an owner whom the system does not know are run by nobody else", async (context) => {
  const project = await temporaryProject(context, { inside: "project" });
  const home = join(project.root, "project");
  await mkdir(home);
  await chown(home, UNKNOWN, UNKNOWN);
  const checkout = await everbeatWithoutPackage(join(project.root, "elsewhere"));
  const planted = await plantPackage(join(home, "node_modules"), UNKNOWN);
  const failure = await (await project.client({ checkout })).failure();
  expect(failure).toMatchObject({ code: "EMBEDDED_PACKAGE_FOREIGN" });
  expect(failure.message).toContain(`Run Everbeat as user ${UNKNOWN}`);
  expect(await planted.ranAs()).toEqual([]);
});

test("an owner whom only a directory service knows has a server of their own", async (context) => {
  onlyAsRoot(context);
  const { root } = await temporaryProject(context, { uid: UNKNOWN });
  const programs = join(root, "programs");
  await mkdir(programs);
  const line = `ada:x:${UNKNOWN}:${UNKNOWN + 1}::/home/ada:/bin/sh`;
  await writeFile(join(programs, "getent"), `#!/bin/sh\n[ "$*" = "passwd ${UNKNOWN}" ] && echo "${line}"\n`, {
    mode: 0o755,
  });
  expect((await findServerAccount(root))?.uid).not.toBe(UNKNOWN);
  vi.stubEnv("PATH", `${programs}:${process.env["PATH"]}`);
  context.onTestFinished(() => void vi.unstubAllEnvs());
  expect(await findServerAccount(root)).toMatchObject({ uid: UNKNOWN, gid: UNKNOWN + 1 });
});

asRoot.concurrent.for([
  ["known to the system", NOBODY, NOBODY],
  ["in no list of users", UNKNOWN, 65_534],
] as const)("an owner %s gets no group from a folder", async ([, uid, group], context) => {
  const project = await temporaryProject(context, { uid });
  await chown(project.root, uid, ADM);
  const hands = await handsFor(project.root);
  expect(hands.account).toEqual({ uid, gid: group });
  await hands.create(join(project.root, "file"));
  expect(await stat(join(project.root, "file"))).toMatchObject({ uid, gid: group });
});

asRoot.concurrent("a server has no group from the folder of its data", async (context) => {
  const { project, folder } = await projectOfAnother(context);
  const first = await project.client({ folder });
  const { dataFolder } = await first.join();
  await first.kill("SIGKILL");
  const { processId } = (await readPostmasterFile(dataFolder)) ?? {};
  process.kill(Number(processId), "SIGKILL");
  await chown(dataFolder, NOBODY, ADM);
  await (await project.client({ folder })).join();
  const server = await readPostmasterFile(dataFolder);
  const status = await readFile(`/proc/${server?.processId}/status`, "utf8");
  expect(/^Gid:\t(.*)$/m.exec(status)?.[1]?.split("\t")).toEqual(Array(4).fill(String(NOBODY)));
});
