/** Programs that another user has stopped, or made to hang, hold root for a time and no longer. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { chown, lstat, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, connect as netConnect } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, type TestContext, test, vi } from "vitest";
import { joinEmbeddedServer, stopEmbeddedServer } from "../../src/database/embedded/embedded-server.ts";
import { handsOf } from "../../src/database/embedded/hands.ts";
import { prepareServer } from "../../src/database/embedded/prepare-server.ts";
import { runProgram } from "../../src/database/embedded/run-program.ts";
import { tryToConnect } from "../../src/database/embedded/server-connection.ts";
import { startServer } from "../../src/database/embedded/start-server.ts";
import { insistOnTurn, takeTurn } from "../../src/database/embedded/starting-turn.ts";
import { until, untilStopped } from "../support/embedded-looks.ts";
import { killPostmaster } from "../support/embedded-processes.ts";
import { joinedProject } from "../support/embedded-project.ts";
import { asRoot, NOBODY, onlyAsRoot, projectOfAnother } from "../support/folder-of-another.ts";

// Real servers, several at once, on a machine that has other work too.
vi.setConfig({ testTimeout: 180_000 });

const run = promisify(execFile);
const account = { uid: NOBODY, gid: NOBODY };

async function folderOfAnother({ onTestFinished }: TestContext): Promise<string> {
  const folder = await mkdtemp("/tmp/everbeat-stopped-");
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await chown(folder, NOBODY, NOBODY);
  return folder;
}

async function isAlive(process: number): Promise<boolean> {
  const state = /\) (\w)/.exec(await readFile(`/proc/${process}/stat`, "utf8").catch(() => ""))?.[1];
  return state !== undefined && state !== "Z";
}

test("a program that its user stops is killed with all that it has started", async (context) => {
  onlyAsRoot(context);
  const folder = await folderOfAnother(context);
  const pids = join(folder, "pids");
  context.onTestFinished(() => killAll(pids));
  // The other one keeps the output open, as the programs that a shell starts do.
  const script = 'sleep 600 & echo "$$ $!" > "$1"; kill -STOP $! $$';
  const ran = runProgram("/bin/sh", ["-c", script, "sh", pids], account, { timeoutMs: 1_500 });
  await expect(ran).rejects.toMatchObject({
    code: "EMBEDDED_PROGRAM_STUCK",
    message: expect.stringMatching(/run as user 65534, has not ended within 1\.5 s.*ps -u 65534/),
  });
  const started = await startedBy(pids);
  expect(started).toHaveLength(2);
  await until("their end", async () => !(await Promise.all(started.map(isAlive))).includes(true));
});

const startedBy = async (pids: string) =>
  (await readFile(pids, "utf8").catch(() => "")).match(/\d+/g)?.map(Number) ?? [];

/** Also where the test fails. */
async function killAll(pids: string): Promise<void> {
  for (const pid of await startedBy(pids)) if (await isAlive(pid)) process.kill(pid, "SIGKILL");
}

asRoot("a program is over when it has ended, though another keeps its output open", async (context) => {
  const folder = await folderOfAnother(context);
  const script = 'setsid sleep 600 & echo $! > "$1"; echo done';
  const ran = await runProgram("/bin/sh", ["-c", script, "sh", join(folder, "pid")], account, { timeoutMs: 60_000 });
  const left = Number(await readFile(join(folder, "pid"), "utf8"));
  context.onTestFinished(() => void process.kill(left, "SIGKILL"));
  expect(await isAlive(left)).toBe(true);
  expect(ran).toEqual({ exitCode: 0, output: "done\n" });
});

asRoot("a program that writes without end fills no memory", async () => {
  const { output } = await runProgram("/bin/sh", ["-c", "yes | head -c 50000000"], account);
  expect(output.length).toBeLessThan(1_000_000);
});

asRoot("a file that its owner has made to hang is named when root has waited for it", async (context) => {
  const folder = await folderOfAnother(context);
  const path = join(folder, "postgresql.conf");
  await run("mkfifo", [path]);
  await chown(path, NOBODY, NOBODY);
  await expect(handsOf(account, { timeoutMs: 1_000 }).append(path, "text")).rejects.toMatchObject({
    code: "EMBEDDED_PROGRAM_STUCK",
    message: expect.stringContaining(`The work on ${path}`),
  });
});

asRoot("a postgres that is stopped before it has the database is killed, and named", async (context) => {
  const { project, folder } = await projectOfAnother(context);
  const client = await project.client({ folder });
  const joined = await client.join();
  await client.close();
  await untilStopped(joined);
  const prepared = await prepareServer({ folder, onProgress: () => {} });
  if (prepared === undefined) throw new Error("there is no database");
  const postgres = join(project.root, "postgres");
  await writeFile(postgres, "#!/bin/sh\nkill -STOP $$\n", { mode: 0o755 });
  const outcome = await startServer({
    ...{ ...prepared, folder, keeping: undefined, patienceMs: 2_000 },
    binaries: { ...prepared.binaries, postgres },
  });
  expect(outcome).toMatchObject({
    kind: "refused",
    obstacle: expect.stringMatching(/postgres, process \d+ of user 65534, who may have stopped it .* is not ready/),
  });
  const number = Number(/process (\d+)/.exec("obstacle" in outcome ? String(outcome.obstacle) : "")?.[1]);
  await until("its end", async () => !(await isAlive(number)));
});

/** As one who is at work would do, for ever. */
async function heldTurn(context: TestContext): Promise<string> {
  const folder = await folderOfAnother(context);
  const turn = join(folder, "starting");
  const script = 'while :; do touch "$1"; echo; sleep 0.1; done';
  const toucher = spawn("/bin/sh", ["-c", script, "sh", turn], { ...account, stdio: ["ignore", "pipe", "ignore"] });
  context.onTestFinished(() => void toucher.kill("SIGKILL"));
  await once(toucher.stdout, "data");
  return turn;
}

asRoot("a turn that another user never ends is waited for as long as one has time", async (context) => {
  const turn = await heldTurn(context);
  const work = vi.fn(async () => {});
  expect(await takeTurn(turn, work, 3_500)).toBe("held-by-another");
  await expect(insistOnTurn(turn, work, 3_500)).rejects.toMatchObject({ code: "EMBEDDED_START_HELD", file: turn });
  expect(work).not.toHaveBeenCalled();
  expect((await lstat(turn)).isFile()).toBe(true);
});

test("a server that was stopped with a signal does not keep a process from leaving", async (context) => {
  const { project, joined } = await joinedProject(context);
  const server = await joinEmbeddedServer({ folder: project.folder, lingerMs: 250 });
  const postmaster = Number((await readFile(join(joined.dataFolder, "postmaster.pid"), "utf8")).split("\n")[0]);
  const { stdout } = await run("ps", ["-o", "pid=", "--ppid", String(postmaster)]);
  const all = [postmaster, ...stdout.trim().split(/\s+/).map(Number)];
  const signal = (name: NodeJS.Signals) => {
    for (const pid of all)
      try {
        process.kill(pid, name);
      } catch {}
  };
  context.onTestFinished(() => signal("SIGCONT"));
  signal("SIGSTOP");
  await server.close();
  signal("SIGCONT");
});

test("a server that was stopped with a signal is not taken for one that has ended", async (context) => {
  const { project, joined } = await joinedProject(context);
  await killPostmaster(joined.dataFolder, "SIGSTOP");
  const stop = stopEmbeddedServer(project.folder).catch((error: Error) => error);
  const isOver = vi.fn();
  void stop.then(isOver);
  await until("the wish to stop it", () => lstat(join(project.folder, "stopped")).catch(() => undefined));
  expect(isOver).not.toHaveBeenCalled();
  // What it has been told meanwhile is heard now.
  await until("its being told", async () => (await pendingOf(joined.dataFolder)) !== 0n);
  await killPostmaster(joined.dataFolder, "SIGCONT");
  expect(await stop).toBeUndefined();
  await untilStopped(joined);
});

/** The signals that the postmaster has been sent and has not seen. */
async function pendingOf(dataFolder: string): Promise<bigint> {
  const [number] = (await readFile(join(dataFolder, "postmaster.pid"), "utf8")).split("\n");
  const status = await readFile(`/proc/${number}/status`, "utf8");
  return BigInt(`0x${/^ShdPnd:\t(\w+)/m.exec(status)?.[1] ?? "0"}`) & 0x2n;
}

test("a server that answers no statement is given up", async (context) => {
  const { joined } = await joinedProject(context);
  const socket = join(joined.dataFolder, `.s.PGSQL.${new URL(joined.url).port}`);
  // In its place, one that passes on what it hears until that is a statement.
  await run("mv", [socket, `${socket}-real`]);
  const proxy = createServer((client) => {
    const server = netConnect(`${socket}-real`);
    for (const side of [client, server]) side.on("error", () => {});
    client.on("data", (chunk) => chunk[0] === 0x51 || chunk[0] === 0x50 || server.write(chunk));
    server.on("data", (chunk) => client.write(chunk));
  });
  context.onTestFinished(async () => {
    proxy.close();
    await rm(socket, { force: true });
    await run("mv", [`${socket}-real`, socket]).catch(() => {});
  });
  proxy.listen(socket);
  await once(proxy, "listening");
  const attempt = await tryToConnect(joined.dataFolder, "test");
  expect(attempt).toMatchObject({ kind: "absent", obstacle: expect.stringContaining("timeout") });
});
