/** The one PostgreSQL that everybody is measured on: our embedded binaries, defaults, a temporary folder. */
import { randomBytes } from "node:crypto";
import { chmodSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { joinEmbeddedServer, stopEmbeddedServer } from "../../dist/database/embedded/embedded-server.js";
import { processorMsOfTree } from "./processor-time.js";

const SHOWN = [
  "server_version",
  "fsync",
  "synchronous_commit",
  "full_page_writes",
  "wal_level",
  "shared_buffers",
  "max_wal_size",
  "checkpoint_timeout",
  "max_connections",
  "autovacuum",
  "jit",
];

export async function startPostgres() {
  const root = mkdtempSync(join(tmpdir(), "everbeat-bench-"));
  // As root, the server runs as another user, who has to get there.
  chmodSync(root, 0o755);
  const folder = join(root, "postgres");
  const server = await joinEmbeddedServer({ folder });
  const pool = new pg.Pool({ connectionString: server.tcpUrl, max: 4 });
  pool.on("error", () => {});
  const postmaster = Number(readFileSync(join(server.dataFolder, "postmaster.pid"), "utf8").split("\n")[0]);
  const ask = async (text, values) => (await pool.query(text, values)).rows;
  const settings = {};
  for (const name of SHOWN) settings[name] = Object.values((await ask(`show ${name}`))[0])[0];

  return {
    settings,
    processorMs: () => processorMsOfTree(postmaster),
    async walBytes() {
      const [row] = await ask("select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8 as bytes");
      return row.bytes;
    },
    /** So that the page images after a checkpoint fall on everybody alike. */
    checkpoint: () => ask("checkpoint"),
    async createDatabase() {
      const name = `bench_${randomBytes(5).toString("hex")}`;
      await ask(`create database ${name}`);
      const address = new URL(server.tcpUrl);
      address.pathname = `/${name}`;
      return new BenchDatabase(address.href, () => ask(`drop database if exists ${name} with (force)`));
    },
    async stop() {
      await pool.end();
      await server.close();
      await stopEmbeddedServer(folder);
      rmSync(root, { recursive: true, force: true, maxRetries: 20, retryDelay: 250 });
    },
  };
}

/** A database of one run's own, with a connection for what is neither ours nor a peer's. */
class BenchDatabase {
  constructor(url, remove) {
    this.url = url;
    this.remove = remove;
    this.pool = new pg.Pool({ connectionString: url, max: 4 });
    this.pool.on("error", () => {});
  }

  async query(text, values) {
    return (await this.pool.query(text, values)).rows;
  }

  /** A session of its own, ended with the database. */
  async session() {
    const client = new pg.Client(this.url);
    client.on("error", () => {});
    await client.connect();
    return client;
  }

  async drop() {
    await this.pool.end();
    await this.remove();
  }
}
