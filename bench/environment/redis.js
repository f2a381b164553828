/** Redis with an append-only file, for BullMQ: Debian's package, installed where it is missing and that is possible. */
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createConnection, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { processorMsOfTree } from "./processor-time.js";

const DATABASES = 16;
const SETTINGS = { appendonly: "yes", appendfsync: "everysec", save: "" };

/** undefined, with the reason in `note`, where there is none to be had. */
export async function startRedis(note) {
  if (!isThere() && !install(note)) {
    note("There is no redis-server and it could not be installed (apt-get install redis-server): no BullMQ on Redis.");
    return undefined;
  }
  return start().catch((error) => note(`Redis did not start: ${error.message}: no BullMQ on Redis.`));
}

async function start() {
  const folder = mkdtempSync(join(tmpdir(), "everbeat-bench-redis-"));
  const port = await freePort();
  const settings = Object.entries(SETTINGS).flatMap(([name, value]) => [`--${name}`, value]);
  const child = spawn("redis-server", ["--port", String(port), "--bind", "127.0.0.1", "--dir", folder, ...settings], {
    stdio: "ignore",
  });
  let next = 0;
  const gone = new Promise((resolve) => child.once("exit", resolve));
  await untilAnswering(port);
  const version = /v=(\S+)/.exec(spawnSync("redis-server", ["--version"], { encoding: "utf8" }).stdout)?.[1];
  return {
    /** One of Redis' numbered databases, in turn: runs that take place at the same time do not meet. */
    createDatabase() {
      const number = next++ % DATABASES;
      return {
        url: `redis://127.0.0.1:${port}/${number}`,
        drop: () => command(port, `SELECT ${number}\r\nFLUSHDB`),
      };
    },
    version,
    settings: SETTINGS,
    processorMs: () => processorMsOfTree(child.pid),
    async stop() {
      child.kill("SIGTERM");
      await Promise.race([gone, pause(5_000)]);
      child.kill("SIGKILL");
      rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}

function isThere() {
  return spawnSync("redis-server", ["--version"]).status === 0;
}

function install(note) {
  if (process.getuid?.() !== 0) return false;
  note("installing redis-server (once)");
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  const apt = (...args) => spawnSync("apt-get", args, { env, stdio: "ignore" }).status === 0;
  if (!apt("install", "-y", "redis-server")) apt("update") && apt("install", "-y", "redis-server");
  return isThere();
}

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function untilAnswering(port) {
  for (let tries = 0; ; tries++) {
    try {
      return await command(port, "PING");
    } catch (error) {
      if (tries > 100) throw error;
      await pause(100);
    }
  }
}

function command(port, name) {
  return new Promise((resolve, reject) => {
    const socket = createConnection({ port, host: "127.0.0.1" }, () => socket.write(`${name}\r\n`));
    socket.once("error", reject);
    socket.once("data", (data) => {
      socket.destroy();
      resolve(String(data).trim());
    });
  });
}
