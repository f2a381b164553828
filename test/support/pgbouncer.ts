/** PgBouncer in transaction mode before the tests' server: every transaction may get another session. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { runProgram } from "../../src/database/embedded/run-program.ts";
import { eventually } from "./eventually.ts";

export interface PgBouncer {
  /** The same database, by way of the pooler. */
  through(url: string): string;
  log(): Promise<string>;
  stop(): Promise<void>;
}

/** Fewer sessions than there are clients, so that they really do share them. */
const POOL_SIZE = 4;

export async function startPgBouncer(serverUrl: string): Promise<PgBouncer> {
  const program = await findOrInstall();
  const { hostname, port: serverPort, username, password } = new URL(serverUrl);
  const folder = await mkdtemp(join(tmpdir(), "everbeat-pgbouncer-"));
  const files = { config: join(folder, "pgbouncer.ini"), log: join(folder, "pgbouncer.log") };
  const port = await freePort();
  await writeFile(
    files.config,
    `[databases]
* = host=${hostname} port=${serverPort} user=${username} password=${decodeURIComponent(password)}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = ${POOL_SIZE}
max_client_conn = 500
logfile = ${files.log}
`,
  );
  // It refuses to run as root.
  const isRoot = userInfo().uid === 0;
  await chmod(folder, 0o777);
  const child = spawn(program, [...(isRoot ? ["-u", "nobody"] : []), files.config], { stdio: "ignore" });
  const exited = once(child, "exit");
  await eventually(() => accepts(port), { what: "PgBouncer to answer", within: 15_000 });
  return {
    through(url) {
      const address = new URL(url);
      address.hostname = "127.0.0.1";
      address.port = String(port);
      return address.href;
    },
    log: () => readFile(files.log, "utf8"),
    async stop() {
      child.kill("SIGTERM");
      await exited;
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function findOrInstall(): Promise<string> {
  const found = await where();
  if (found) return found;
  const apt = async (...args: string[]) => {
    const { exitCode, output } = await runProgram(
      "/usr/bin/env",
      ["DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1", "apt-get", ...args],
      undefined,
    );
    if (exitCode !== 0)
      throw new Error(`apt-get ${args.join(" ")} failed; install pgbouncer by hand, then try again:\n${output}`);
  };
  await apt("update");
  await apt("install", "-y", "--no-install-recommends", "pgbouncer");
  const installed = await where();
  if (!installed) throw new Error("pgbouncer was installed and cannot be found");
  return installed;
}

async function where(): Promise<string | undefined> {
  const { exitCode, output } = await runProgram(
    "/bin/sh",
    ["-c", "PATH=$PATH:/usr/sbin command -v pgbouncer"],
    undefined,
  );
  return exitCode === 0 ? output.trim() : undefined;
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("error", () => resolve(false));
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
  });
}
