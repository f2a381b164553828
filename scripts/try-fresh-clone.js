// Tries the README's two commands as a newcomer would, in fresh clones of the last commit: as root under a home folder
// that nobody else can enter, and as an ordinary user under a folder with a space in its name. Needs root and the registry.
import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const COMMANDS = ["npm ci && npm run demo", "npm ci && npm test"];
const NEWCOMERS = [
  { name: "root under a closed home folder", folder: "home", user: undefined },
  { name: "an ordinary user", folder: "a home", user: "everbeat-newcomer" },
];

function idsOf(user) {
  if (spawnSync("id", [user]).status !== 0) execFileSync("useradd", ["--create-home", user]);
  const id = (flag) => Number(execFileSync("id", [flag, user], { encoding: "utf8" }));
  return { uid: id("-u"), gid: id("-g") };
}

const failures = [];
for (const newcomer of NEWCOMERS) {
  const base = mkdtempSync(join(tmpdir(), "everbeat-newcomer-"));
  const home = join(base, newcomer.folder);
  const ids = newcomer.user ? idsOf(newcomer.user) : {};
  mkdirSync(home, { mode: 0o700 });
  chmodSync(base, 0o755);
  execFileSync("git", ["clone", "--quiet", root, join(home, "everbeat")]);
  if (newcomer.user) {
    execFileSync("chown", ["-R", `${ids.uid}:${ids.gid}`, home]);
    chownSync(home, ids.uid, ids.gid);
  }
  // The newcomer's own environment: no database, no settings of ours, npm configured as it is on this machine. The folders of whoever
  // runs this, which `npm run` passes on, are closed to others.
  const { DATABASE_URL: _url, EVERBEAT_FOLDER: _folder, ...env } = process.env;
  for (const name of ["npm_config_cache", "npm_config_userconfig", "npm_config_prefix"]) delete env[name];
  for (const command of COMMANDS) {
    console.log(`\n### ${newcomer.name}: ${command}\n`);
    const outcome = spawnSync("bash", ["-c", command], {
      cwd: join(home, "everbeat"),
      stdio: ["ignore", "inherit", "inherit"],
      env: { ...env, ...(newcomer.user ? { HOME: home, USER: newcomer.user } : {}) },
      ...ids,
    });
    if (outcome.status !== 0) failures.push(`${newcomer.name}: ${command}`);
  }
  rmSync(base, { recursive: true, force: true, maxRetries: 10 });
}
console.log(failures.length === 0 ? "\nBoth commands work for everyone." : `\nFailed:\n  ${failures.join("\n  ")}`);
process.exitCode = failures.length === 0 ? 0 : 1;
