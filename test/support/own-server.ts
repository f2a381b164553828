/** A PostgreSQL of the test's own that can be stopped, killed and started; nobody brings it back by himself. */
import { chmod, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { prepareServer } from "../../src/database/embedded/prepare-server.ts";
import { runProgram } from "../../src/database/embedded/run-program.ts";
import { readPassword, SERVER_ROLE } from "../../src/database/embedded/server-files.ts";
import { choosePort } from "../../src/database/embedded/server-port.ts";
import { killPostmaster } from "./embedded-project.ts";
import { eventually } from "./eventually.ts";

export interface OwnServer {
  readonly url: string;
  start(): Promise<void>;
  /** fast (default): sessions are ended in good order. immediate: as in a crash, with recovery at the next start. */
  stop(mode?: "fast" | "immediate"): Promise<void>;
  /** SIGKILL of its first process. */
  kill(): Promise<void>;
}

/** `on`: the folder under which its data is made, if not the usual one. `settings`: name=value, for each of its starts. */
export async function startOwnServer({ on = tmpdir(), settings = [] as readonly string[] } = {}): Promise<OwnServer> {
  const root = await mkdtemp(join(on, "everbeat-crash-"));
  onTestFinished(() => rm(root, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }));
  // As root, the server runs as another user, who has to get there.
  await chmod(root, 0o755);
  const folder = join(root, "server");
  await mkdir(folder);
  const prepared = await prepareServer({ folder, onProgress: () => {} });
  if (prepared === undefined) throw new Error(`somebody else makes a database in ${folder}`);
  const { dataFolder, binaries, account } = prepared;
  const port = await choosePort(dataFolder);
  const control = async (...args: string[]) => {
    const { exitCode, output } = await runProgram(binaries.pgCtl, [...args, "-D", dataFolder, "-w"], account);
    if (exitCode !== 0) throw new Error(`pg_ctl ${args.join(" ")}: ${output}`);
  };
  const options = [`-p ${port}`, ...settings.map((setting) => `-c ${setting}`)].join(" ");
  const server: OwnServer = {
    url: `postgres://${SERVER_ROLE}:${await readPassword(dataFolder)}@127.0.0.1:${port}/postgres`,
    async start() {
      // The children of a killed server hold on to its memory for a moment, and it does not start beside them.
      await eventually(() => control("start", "-l", join(dataFolder, "log"), "-o", options).then(() => true));
    },
    stop: (mode = "fast") => control("stop", "-m", mode),
    kill: () => killPostmaster(dataFolder, "SIGKILL"),
  };
  await server.start();
  // Before the folder goes: what is registered last is done first.
  onTestFinished(() => server.stop("immediate").catch(() => {}));
  return server;
}
