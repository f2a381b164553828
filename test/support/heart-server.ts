/** A PostgreSQL of the test's own that can be stopped, killed and started; nobody brings it back by himself. */
import { chmod, mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { prepareServer } from "../../src/database/embedded/prepare-server.ts";
import { runProgram } from "../../src/database/embedded/run-program.ts";
import { readPassword, SERVER_ROLE } from "../../src/database/embedded/server-files.ts";
import { choosePort } from "../../src/database/embedded/server-port.ts";
import { eventually } from "./eventually.ts";

export interface HeartServer {
  readonly url: string;
  start(): Promise<void>;
  stop(): Promise<void>;
  /** SIGKILL of its first process; resolves when all of it is gone. */
  kill(): Promise<void>;
}

export async function startHeartServer(): Promise<HeartServer> {
  const root = await mkdtemp(join(tmpdir(), "everbeat-heart-"));
  onTestFinished(() => rm(root, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }));
  // As root, the server runs as another user, who has to get there.
  await chmod(root, 0o755);
  const folder = join(root, "server");
  await mkdir(folder);
  const { dataFolder, binaries, account } = await prepareServer({ folder, onProgress: () => {} });
  const port = await choosePort(dataFolder);
  const control = async (...args: string[]) => {
    const { exitCode, output } = await runProgram(binaries.pgCtl, [...args, "-D", dataFolder, "-w"], account);
    if (exitCode !== 0) throw new Error(`pg_ctl ${args.join(" ")}: ${output}`);
  };
  // The children of a killed server hold on to its memory for a moment, and it does not start beside them.
  const start = () =>
    eventually(() => control("start", "-l", join(dataFolder, "log"), "-o", `-p ${port}`).then(() => true));
  const server: HeartServer = {
    url: `postgres://${SERVER_ROLE}:${await readPassword(dataFolder)}@127.0.0.1:${port}/postgres`,
    start: () => start().then(() => {}),
    stop: () => control("stop", "-m", "fast"),
    async kill() {
      const [pid] = (await readFile(join(dataFolder, "postmaster.pid"), "utf8")).split("\n");
      if (!/^[1-9]\d+$/.test(pid ?? "")) throw new Error(`no process in postmaster.pid: ${pid}`);
      process.kill(Number(pid), "SIGKILL");
    },
  };
  await server.start();
  // Before the folder goes: what is registered last is done first.
  onTestFinished(() => control("stop", "-m", "immediate").catch(() => {}));
  return server;
}
