// A PostgreSQL server of Debian's package in a temporary folder: for tests on another major version, and with a standby,
// which the embedded binaries have no tools for. Plain JavaScript, since a script uses it before anything is compiled.
import { execFileSync } from "node:child_process";
import { chownSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The folder with Debian's server programs; installs the package where it is missing (as root). */
export function debianBinaries() {
  const root = "/usr/lib/postgresql";
  const found = () =>
    existsSync(root) ? readdirSync(root).filter((version) => existsSync(join(root, version, "bin", "initdb"))) : [];
  if (found().length === 0) {
    const apt = (...args) =>
      execFileSync("apt-get", args, {
        stdio: ["ignore", "ignore", "inherit"],
        env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
      });
    apt("update");
    apt("install", "-y", "--no-install-recommends", "postgresql");
  }
  const [version] = found();
  if (!version) throw new Error("Debian's package postgresql could not be installed");
  return join(root, version, "bin");
}

/** PostgreSQL does not run as root; Debian's package brings a user for it. */
function serverUser() {
  if (process.getuid?.() !== 0) return {};
  const [uid, gid] = ["-u", "-g"].map((flag) => Number(execFileSync("id", [flag, "postgres"], { encoding: "utf8" })));
  return { uid, gid };
}

export async function createCluster(options = {}) {
  const bin = debianBinaries();
  const user = serverUser();
  const folder = mkdtempSync(join(tmpdir(), "everbeat-cluster-"));
  if (user.uid !== undefined) chownSync(folder, user.uid, user.gid);
  const run = (program, ...args) => execFileSync(join(bin, program), args, { ...user, stdio: "ignore", cwd: folder });
  const port = await freePort();
  const cluster = clusterIn({ bin, folder, port, run, settings: options.settings ?? [] });
  run("initdb", "-D", cluster.data, "-U", "postgres", "--auth=trust", "--locale=C", "--encoding=UTF8");
  cluster.start();
  return cluster;
}

function clusterIn({ bin, folder, port, run, settings }) {
  const data = join(folder, `data-${port}`);
  /** A program that connects to this server. */
  const runHere = (program, ...args) => run(program, "-h", "127.0.0.1", "-p", String(port), "-U", "postgres", ...args);
  /** A base backup of this moment. */
  const copyTo = (to, ...more) => runHere("pg_basebackup", "-D", to, "-c", "fast", ...more);
  return {
    bin,
    data,
    port,
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    start() {
      const flags = [
        "fsync=off",
        "listen_addresses=127.0.0.1",
        "unix_socket_directories=",
        "max_connections=200",
        ...settings,
      ];
      run(
        "pg_ctl",
        "-D",
        data,
        "-w",
        "-l",
        join(folder, `log-${port}`),
        "-o",
        `-p ${port} ${flags.map((flag) => `-c ${flag}`).join(" ")}`,
        "start",
      );
    },
    stop(mode = "fast") {
      run("pg_ctl", "-D", data, "-w", "-m", mode, "stop");
    },
    /** SIGKILL of its first process: nobody is told anything. */
    kill() {
      const [pid] = readFileSync(join(data, "postmaster.pid"), "utf8").split("\n");
      if (!/^[1-9]\d+$/.test(pid)) throw new Error(`no process in postmaster.pid: ${pid}`);
      process.kill(Number(pid), "SIGKILL");
    },
    promote() {
      run("pg_ctl", "-D", data, "-w", "promote");
    },
    /** A standby that follows this server from now on. It has settings of its own: what a primary waits for may not be there later. */
    async standby(own = []) {
      const primary = `primary_conninfo=host=127.0.0.1\\ port=${port}\\ user=postgres\\ application_name=standby`;
      const other = clusterIn({ bin, folder, port: await freePort(), run, settings: [primary, ...own] });
      mkdirSync(other.data, { mode: 0o700 });
      const { uid, gid } = serverUser();
      if (uid !== undefined) chownSync(other.data, uid, gid);
      copyTo(other.data, "-R");
      other.start();
      return other;
    },
    /** A base backup of this moment, taken while the server runs. */
    backUp() {
      copyTo(`${data}-backup`);
    },
    /** In the place of the data of a server that is down: as it was when that backup was made, at the same address. */
    restore() {
      // Not removed: what is left of a killed server's processes still writes there.
      renameSync(data, `${data}-lost`);
      renameSync(`${data}-backup`, data);
    },
    /** The database as a dump, restored into another of the same server. */
    copyByDump(from, to) {
      const dump = join(folder, `${to}.sql`);
      runHere("createdb", to);
      runHere("pg_dump", "-f", dump, from);
      runHere("psql", "-v", "ON_ERROR_STOP=1", "-q", "-f", dump, to);
    },
    remove() {
      rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}

function freePort() {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}
