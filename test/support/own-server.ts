/** A PostgreSQL of the test's own that can be stopped, killed, started, followed and restored; nobody brings it back by himself. */
import { chmod, mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { onTestFinished } from "vitest";
import { type PreparedServer, prepareServer } from "../../src/database/embedded/prepare-server.ts";
import { runProgram } from "../../src/database/embedded/run-program.ts";
import { readPassword, SERVER_ROLE } from "../../src/database/embedded/server-files.ts";
import { choosePort } from "../../src/database/embedded/server-port.ts";
import { appendFor, takeBaseBackup } from "./base-backup.ts";
import { killPostmaster } from "./embedded-processes.ts";
import { eventually } from "./eventually.ts";

export interface OwnServer {
  readonly url: string;
  readonly port: number;
  start(): Promise<void>;
  /** fast (default): sessions are ended in good order. immediate: as in a crash, with recovery at the next start. */
  stop(mode?: "fast" | "immediate"): Promise<void>;
  /** SIGKILL of its first process. */
  kill(): Promise<void>;
  /** Another server that follows this one from now on, with the same settings. */
  standby(): Promise<OwnServer>;
  /** Of a standby: it follows nobody any more. */
  promote(): Promise<void>;
  /** A base backup of this moment, taken while the server runs. */
  backUp(): Promise<void>;
  /** In the place of the data of a server that is down: as it was when that backup was made, at the same address. */
  restore(): Promise<void>;
}

/** As onTestFinished and afterAll do: what is registered last is done first. */
type Finally = (work: () => Promise<void>) => void;

/**
 * `on`: the folder under which its data is made, if not the usual one. `settings`: name=value, for each of its starts. `whenDone`: afterAll, for
 * a server of a whole file.
 */
export async function startOwnServer({
  on = tmpdir(),
  settings = [] as readonly string[],
  whenDone = onTestFinished as Finally,
} = {}): Promise<OwnServer> {
  const root = await mkdtemp(join(on, "everbeat-crash-"));
  whenDone(() => rm(root, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }));
  // As root, the server runs as another user, who has to get there.
  await chmod(root, 0o755);
  const folder = join(root, "server");
  await mkdir(folder);
  const prepared = await prepareServer({ folder, onProgress: () => {} });
  if (prepared === undefined) throw new Error(`somebody else makes a database in ${folder}`);
  return startIn(prepared, { settings, whenDone });
}

async function startIn(
  prepared: PreparedServer,
  own: { settings: readonly string[]; whenDone: Finally },
): Promise<OwnServer> {
  const { dataFolder, binaries, account } = prepared;
  const { port } = await choosePort(dataFolder, false);
  const url = `postgres://${SERVER_ROLE}:${await readPassword(dataFolder)}@127.0.0.1:${port}/postgres`;
  const control = async (...args: string[]) => {
    const { exitCode, output } = await runProgram(binaries.pgCtl, [...args, "-D", dataFolder, "-w"], account);
    if (exitCode !== 0) throw new Error(`pg_ctl ${args.join(" ")}: ${output}`);
  };
  const options = [`-p ${port}`, ...own.settings.map((setting) => `-c ${setting}`)].join(" ");
  const backup = `${dataFolder}-backup`;
  const server: OwnServer = {
    ...{ url, port },
    async start() {
      // The children of a killed server hold on to its memory for a moment, and it does not start beside them.
      await eventually(() => control("start", "-l", join(dataFolder, "log"), "-o", options).then(() => true));
    },
    stop: (mode = "fast") => control("stop", "-m", mode),
    kill: () => killPostmaster(dataFolder, "SIGKILL"),
    async standby() {
      const to = `${dataFolder}-standby`;
      await takeBaseBackup({ url, from: dataFolder, to, account });
      const { username, password } = new URL(url);
      const primary = `host=127.0.0.1 port=${port} user=${username} password=${password}`;
      await appendFor(account, join(to, "postgresql.auto.conf"), `primary_conninfo = '${primary}'\n`);
      await appendFor(account, join(to, "standby.signal"), "");
      return startIn({ ...prepared, dataFolder: to }, own);
    },
    async promote() {
      const client = new pg.Client(url);
      await client.connect();
      const { rows } = await client.query("select pg_promote() as is_primary");
      await client.end();
      if (!rows[0].is_primary) throw new Error("the standby was not promoted in time");
    },
    backUp: () => takeBaseBackup({ url, from: dataFolder, to: backup, account }),
    async restore() {
      // Not removed: what is left of the killed server's processes still writes there.
      await rename(dataFolder, `${dataFolder}-lost`);
      await rename(backup, dataFolder);
    },
  };
  await server.start();
  // Before the folder goes.
  own.whenDone(() => server.stop("immediate").catch(() => {}));
  return server;
}
