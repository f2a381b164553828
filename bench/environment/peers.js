/** The peers and the Node that everybody runs in: installed into bench/node_modules on the first run. */
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const folder = join(dirname(fileURLToPath(import.meta.url)), "..");
const PACKAGES = ["pg-boss", "graphile-worker", "bullmq", "ioredis", "pg"];

/**
 * Ours runs in the same Node as the peers, which need a newer one than we do: so that nobody gains by it. Where they cannot
 * be installed, ours is measured alone, in the Node that is there, and every peer is reported as failed.
 */
export function installPeers(note) {
  const node = join(folder, "node_modules", "node", "bin", "node");
  if (!isComplete(node)) {
    note("installing the peers into bench/node_modules (once)");
    // Not `npm ci`, which fails where the lock file lacks an optional package of another platform.
    const npm = spawnSync("npm", ["install", "--no-save", "--no-audit", "--no-fund"], {
      cwd: folder,
      encoding: "utf8",
    });
    if (npm.status !== 0 || !isComplete(node)) {
      note(`The peers could not be installed (npm install in bench/), so ours is measured alone:\n${npm.stderr}`);
      return { node: process.execPath, versions: { node: process.version } };
    }
  }
  return {
    node,
    versions: {
      node: execFileSync(node, ["--version"], { encoding: "utf8" }).trim(),
      ...Object.fromEntries(PACKAGES.map((name) => [name, versionOf(name)])),
    },
  };
}

function isComplete(node) {
  const { dependencies } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const fits = (name) => !/^\d/.test(dependencies[name]) || dependencies[name] === versionOf(name);
  return existsSync(node) && PACKAGES.every((name) => versionOf(name) !== undefined && fits(name));
}

function versionOf(name) {
  const file = join(folder, "node_modules", name, "package.json");
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")).version : undefined;
}
