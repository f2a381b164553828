/** What a command has open from its shell stays with the command: no server, no keeper and no other user's program gets it. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, chown, mkdir, open, readdir, readFile, readlink, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { expect, type TestContext, test, vi } from "vitest";
import { until } from "../support/embedded-looks.ts";
import { keepersOf, oneKeeperAtWork } from "../support/embedded-processes.ts";
import { repository } from "../support/embedded-project.ts";
import { asRoot, NOBODY, onlyAsRoot, projectOfAnother } from "../support/folder-of-another.ts";

// Real servers, on a machine that has other work too.
vi.setConfig({ testTimeout: 180_000 });

const run = promisify(execFile);
const seesProcesses = test.skipIf(process.platform !== "linux");

/** It stays until it is killed; its server stays longer. */
const JOIN = `
  const [module, folder] = process.argv.slice(1);
  const { joinEmbeddedServer } = await import(module);
  try {
    console.log((await joinEmbeddedServer({ folder, lingerMs: 120_000 })).url);
    setInterval(() => {}, 1_000);
  } catch (error) { console.log(error.code, error.message); }`;

interface Command {
  readonly folder: string;
  /** What it has open and has locked, as after `exec 200<>file; flock 200`. */
  readonly file: string;
  readonly numbers: readonly number[];
  readonly uid?: number;
  readonly path?: string;
  /** How many files it may have open. */
  readonly limit?: number;
}

async function startCommand({ folder, file, numbers, uid, path, limit }: Command, { onTestFinished }: TestContext) {
  const module = pathToFileURL(join(repository, "dist/database/embedded/embedded-server.js")).href;
  const handle = await open(file, "r+");
  const stdio: ("ignore" | "pipe" | "inherit" | number)[] = ["ignore", "pipe", "inherit"];
  for (let number = 3; number <= Math.max(...numbers); number++) {
    stdio.push(numbers.includes(number) ? handle.fd : "ignore");
  }
  const locker = spawn("flock", ["-n", "3"], { stdio: ["ignore", "inherit", "inherit", handle.fd] });
  expect(await once(locker, "exit")).toEqual([0, null]);
  const user = uid === undefined ? {} : { uid, gid: uid };
  const env = { ...process.env, NODE_OPTIONS: "", PATH: path ?? process.env["PATH"] };
  const script = limit === undefined ? 'exec "$@"' : `ulimit -n ${limit}; exec "$@"`;
  const join_ = [process.execPath, "--input-type=module", "-e", JOIN, module, folder];
  const child = spawn("/bin/sh", ["-c", script, "sh", ...join_], {
    ...{ ...user, cwd: "/", env, stdio },
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  await handle.close();
  let said = "";
  child.stdout?.on("data", (chunk: Buffer) => (said += chunk));
  await until("it to have joined, or failed", () => said.endsWith("\n"));
  const end = async () => {
    child.kill("SIGKILL");
    await once(child, "exit");
  };
  return { pid: Number(child.pid), said: said.trim(), end };
}

async function filesOf(pid: number): Promise<string[]> {
  const links = (await readdir(`/proc/${pid}/fd`)).map((number) => `/proc/${pid}/fd/${number}`);
  return await Promise.all(links.map((link) => readlink(link).catch(() => "closed since")));
}

/** The postmaster and its helpers, and the keeper. */
async function leftRunning(folder: string): Promise<number[]> {
  const [postmaster] = (await readFile(join(folder, "data/postmaster.pid"), "utf8")).split("\n");
  const helpers = await readFile(`/proc/${postmaster}/task/${postmaster}/children`, "utf8");
  const keepers = await keepersOf(folder);
  expect(keepers).toHaveLength(1);
  return [Number(postmaster), ...helpers.trim().split(" ").map(Number), ...keepers];
}

const isLocked = (file: string) =>
  run("flock", ["-n", file, "true"]).then(
    () => false,
    () => true,
  );

async function expectToBeWithout(file: string, folder: string): Promise<void> {
  const processes = await leftRunning(folder);
  expect(processes.length).toBeGreaterThan(4);
  for (const pid of processes) expect(await filesOf(pid).catch(() => [])).not.toContain(file);
}

/** One of the system's programs, as that user could have it: it notes what it has open before it does its work. */
const CURIOUS = `#!/bin/sh
ls -l /proc/$$/fd >> "$0.seen"
exec "/bin/\${0##*/}" "$@"
`;
const CURIOUS_NAMES = ["mkdir", "cat", "sync", "mv", "rm"];

test("what runs in the name of the folder's owner has no file that root had open", async (context) => {
  onlyAsRoot(context);
  context.skip(process.platform !== "linux", "only Linux tells what is open");
  const { project, folder, treasury } = await projectOfAnother(context);
  // Its server is stopped after the test, also if this test fails in between.
  await project.client({ folder });
  const programs = join(project.root, "programs");
  await mkdir(programs);
  for (const name of CURIOUS_NAMES) {
    await writeFile(join(programs, name), CURIOUS);
    await chmod(join(programs, name), 0o755);
    await writeFile(join(programs, `${name}.seen`), "");
    await chmod(join(programs, `${name}.seen`), 0o666);
  }
  const file = join(treasury, "secret");
  const path = `${programs}:${process.env["PATH"]}`;
  const command = await startCommand({ folder, file, numbers: [17, 200], path }, context);
  expect(command.said).toMatch(/^postgres/);
  expect((await filesOf(command.pid)).filter((name) => name === file)).toHaveLength(2);
  for (const name of CURIOUS_NAMES) {
    const seen = await readFile(join(programs, `${name}.seen`), "utf8");
    expect(seen).toContain("200 -> /dev/null");
    expect(seen).not.toContain(file);
  }
  await oneKeeperAtWork(folder, command.said);
  await expectToBeWithout(file, folder);
  expect(await isLocked(file)).toBe(true);
  await command.end();
  expect(await isLocked(file)).toBe(false);
  expect(await stat(join(folder, "data/postmaster.pid"))).toMatchObject({ uid: NOBODY });
});

seesProcesses("a lock of a command is free when the command has ended, though its server goes on", async (context) => {
  const { project, home, folder } = await projectOfAnother(context);
  await project.client({ folder });
  const file = join(home, "lock");
  await writeFile(file, "");
  const uid = process.getuid?.() === 0 ? NOBODY : undefined;
  if (uid !== undefined) await chown(file, uid, uid);
  const command = await startCommand({ folder, file, numbers: [17, 200], ...(uid && { uid }) }, context);
  expect(command.said).toMatch(/^postgres/);
  await oneKeeperAtWork(folder, command.said);
  expect(await isLocked(file)).toBe(true);
  await command.end();
  expect(await stat(join(folder, "data/postmaster.pid"))).toMatchObject({ size: expect.any(Number) });
  expect(await isLocked(file)).toBe(false);
});

const TOO_HIGH = [{ number: 1_024 }, { number: 1_023, limit: 1_024 }];

asRoot.for(TOO_HIGH)(
  "a file that cannot be kept from the other user refuses the start ($number)",
  async (one, context) => {
    context.skip(process.platform !== "linux", "only Linux tells what is open");
    const { number, limit } = { limit: undefined, ...one };
    const { project, folder, treasury } = await projectOfAnother(context);
    await project.client({ folder });
    const file = join(treasury, "secret");
    const { said } = await startCommand({ folder, file, numbers: [number], ...(limit && { limit }) }, context);
    expect(said).toMatch(/^EMBEDDED_DESCRIPTOR_OPEN File descriptor \d+ of this process .* user 65534 .* below 100,/);
    expect(said).toContain(`descriptor ${number} `);
  },
);

seesProcesses("a file with a number that is too high keeps nobody from starting an own server", async (context) => {
  const { project, home, folder } = await projectOfAnother(context);
  await project.client({ folder });
  const file = join(home, "lock");
  await writeFile(file, "");
  const uid = process.getuid?.() === 0 ? NOBODY : undefined;
  if (uid !== undefined) await chown(file, uid, uid);
  const command = await startCommand({ folder, file, numbers: [1_023], limit: 1_024, ...(uid && { uid }) }, context);
  expect(command.said).toMatch(/^postgres/);
});
