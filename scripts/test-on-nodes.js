// Runs the unit and database tests on other versions of Node than the one that is installed: `npm run test:nodes`, or
// `npm run test:nodes -- 22` for one of them. Their binaries come from the npm package `node`, into a temporary folder.
import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const TESTS = ["test/unit", "test/database"];
const versions = process.argv.length > 2 ? process.argv.slice(2) : ["22", "24"];
const wrong = versions.filter((version) => !/^\d+(\.\d+){0,2}$/.test(version));
if (wrong.length > 0) {
  console.error(`Not a version of Node: ${wrong.join(", ")}. Give numbers, such as 22 or 24.1.0.`);
  process.exit(2);
}

function install(version, folder) {
  writeFileSync(join(folder, "package.json"), '{ "private": true }');
  execFileSync("npm", ["install", "--no-audit", "--no-fund", "--loglevel=error", `node@${version}`], {
    cwd: folder,
    stdio: ["ignore", "inherit", "inherit"],
  });
  return join(folder, "node_modules/node/bin/node");
}

const failures = [];
for (const version of versions) {
  const folder = mkdtempSync(join(tmpdir(), `everbeat-node-${version}-`));
  // Some tests run as other users.
  chmodSync(folder, 0o755);
  try {
    const node = install(version, folder);
    const exact = execFileSync(node, ["--version"], { encoding: "utf8" }).trim();
    console.log(`\n### Node ${exact}\n`);
    const { status } = spawnSync(node, [join(root, "node_modules/vitest/vitest.mjs"), "run", ...TESTS], {
      cwd: root,
      stdio: ["ignore", "inherit", "inherit"],
      env: { ...process.env, PATH: `${dirname(node)}${delimiter}${process.env.PATH}` },
    });
    if (status !== 0) failures.push(exact);
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
  }
}
console.log(
  failures.length === 0 ? `\nAll pass on Node ${versions.join(" and ")}.` : `\nFailed on ${failures.join(", ")}.`,
);
process.exitCode = failures.length === 0 ? 0 : 1;
