// Runs the examples: `npm run example NAME`, or `npm run example -- --all`. Exit 0: all of them showed what they promise.
import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { joinEmbeddedServer, stopEmbeddedServer } from "../dist/database/embedded/embedded-server.js";

const TIME_LIMIT_MS = 120_000;
const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const examples = join(root, "examples");
const names = readdirSync(examples).filter((name) => existsSync(join(examples, name, "main.ts")));

const [asked, ...more] = process.argv.slice(2);
const chosen = asked === "--all" ? names : names.filter((name) => name === asked);
if (chosen.length === 0 || more.length > 0) {
  console.error(asked === undefined || more.length > 0 ? "Which example?" : `There is no example "${asked}".`);
  console.error(`\n  npm run example NAME\n  npm run example -- --all\n`);
  for (const name of names) console.error(`  ${name.padEnd(24)}${summary(name)}`);
  process.exit(2);
}

const database = await temporaryDatabase();
const failed = [];
try {
  for (const name of chosen) {
    console.log(`\n── ${name} ${"─".repeat(Math.max(4, 70 - name.length))}`);
    const startedMs = performance.now();
    const problem = await run(name);
    const took = `${((performance.now() - startedMs) / 1000).toFixed(1)} s`;
    console.log(problem === undefined ? `✓ ${name} (${took})` : `✗ ${name}: ${problem} (${took})`);
    if (problem !== undefined) failed.push(name);
  }
} finally {
  await database.remove();
}
if (asked === "--all") {
  const good = chosen.length - failed.length;
  console.log(
    `\n${good} of ${chosen.length} examples showed what they promise${failed.length > 0 ? `; not ${failed.join(", ")}` : ""}.`,
  );
}
process.exit(failed.length > 0 ? 1 : 0);

/** The sentence that its main.ts begins with, for the list. */
function summary(name) {
  const main = readFileSync(join(examples, name, "main.ts"), "utf8");
  return /^\/\*\* (.*) \*\/$/m.exec(main)?.[1] ?? "";
}

/** In a process of its own, as a user would. Returns what went wrong, if anything. */
function run(name) {
  return new Promise((resolve) => {
    const main = join(examples, name, "main.ts");
    const env = { ...process.env, ...database.env };
    const child = spawn(process.execPath, ["--import", "jiti/register", main], { cwd: root, stdio: "inherit", env });
    const timer = setTimeout(() => {
      child.kill("SIGKILL");
      resolve(`did not end within ${TIME_LIMIT_MS / 1000} s`);
    }, TIME_LIMIT_MS);
    child.once("error", (error) => resolve(error.message));
    child.once("exit", (code, signal) => {
      clearTimeout(timer);
      resolve(code === 0 ? undefined : signal ? `ended by ${signal}` : `exit ${code}`);
    });
  });
}

/** DATABASE_URL where it is set; else a server that is there only while the examples run. */
async function temporaryDatabase() {
  if (process.env.DATABASE_URL) return { env: {}, remove: async () => {} };
  const project = await mkdtemp(join(tmpdir(), "everbeat-example-"));
  // Root's server runs as another user: where that one cannot enter, the data would be kept, and left, elsewhere.
  await chmod(project, 0o755);
  const folder = join(project, ".everbeat");
  const server = await joinEmbeddedServer({ folder, onProgress: (message) => console.log(message) });
  return {
    env: { EVERBEAT_FOLDER: folder },
    async remove() {
      await server.close();
      await stopEmbeddedServer(folder);
      await rm(project, { recursive: true, force: true, maxRetries: 20, retryDelay: 250 });
    },
  };
}
