/**
 * Switches each protection off in a copy of the tree and sees that its test goes red, and is green with it.
 * `npm run test:protections`; `-- guard epoch` only these; with `-- --model` the model is tried on each too, by as many runs as
 * EVERBEAT_MODEL_RUNS says.
 */
import { spawn } from "node:child_process";
import { chmod, cp, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { joinEmbeddedServer, stopEmbeddedServer } from "../../dist/database/embedded/embedded-server.js";
import { PROTECTIONS } from "./protections.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const COPIED = ["src", "test", "migrations", "scripts", "package.json", "tsconfig.json", "tsconfig.build.json"];
const asked = process.argv.slice(2).filter((argument) => !argument.startsWith("--"));
const chosen = PROTECTIONS.filter(({ name }) => asked.length === 0 || asked.includes(name));
const isModelTried = process.argv.includes("--model");
const MODEL = "test/model/model.test.ts";

const folder = await mkdtemp(join(tmpdir(), "everbeat-protections-"));
// Open to the server's user, so that the data is in there, and goes with it.
await chmod(folder, 0o755);
const copy = join(folder, "tree");
const server = await joinEmbeddedServer({ folder: join(folder, ".everbeat") });
let isGood = true;
try {
  for (const name of [...COPIED, "vitest.config.ts"]) await cp(join(root, name), join(copy, name), { recursive: true });
  await symlink(join(root, "node_modules"), join(copy, "node_modules"));
  const rows = [await row("(none)", [...new Set(chosen.map(({ test }) => test[0]))], undefined, "green")];
  for (const protection of chosen) rows.push(await withoutIt(protection));
  console.table(Object.fromEntries(rows));
} finally {
  await server.close();
  await stopEmbeddedServer(join(folder, ".everbeat"));
  await rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 250 });
}
process.exitCode = isGood ? 0 : 1;

async function withoutIt({ name, test: [file, title], changes }) {
  const originals = new Map();
  try {
    for (const change of changes) {
      const path = join(copy, change.file);
      const text = await readFile(path, "utf8");
      if (!originals.has(path)) originals.set(path, text);
      if (text.split(change.find).length !== 2) throw new Error(`${name}: ${change.file} has not once: ${change.find}`);
      // A function, since a replacement text has signs of its own.
      await writeFile(
        path,
        text.replace(change.find, () => change.replace),
      );
    }
    return await row(name, [file], title, "red");
  } finally {
    for (const [path, text] of originals) await writeFile(path, text);
  }
}

async function row(name, files, title, expected) {
  const built = await run(["scripts/build.js"], {});
  if (built.code !== 0) throw new Error(`${name}: the test build does not build:\n${built.output}`);
  const { code, output } = await vitest(files, title);
  // What could not be run at all is no red test.
  const [, failed = "0", passed = "0"] = /^ +Tests +(?:(\d+) failed)?(?: \| )?(?:(\d+) passed)?/m.exec(output) ?? [];
  const found = code === 0 && Number(passed) > 0 ? "green" : Number(failed) > 0 ? "red" : "not run";
  if (found !== expected) {
    isGood = false;
    console.error(`${name}: ${found}, and should be ${expected}\n${output}`);
  }
  return [name, { "its test": found, ...(isModelTried ? { "the model": await tryModel() } : {}) }];
}

async function tryModel() {
  const runs = process.env["EVERBEAT_MODEL_RUNS"] ?? "60";
  const { code, output } = await vitest([MODEL], undefined, {
    EVERBEAT_MODEL_RUNS: runs,
    EVERBEAT_MODEL_SHRINK: "no",
  });
  if (code === 0) return `green in ${runs} runs`;
  const [, after] = /Property failed after (\d+) tests/.exec(output) ?? [];
  const [, problem] = /^\+\s+"(.*)",$/m.exec(output) ?? [];
  return `red at run ${after}: ${problem?.replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "…").slice(0, 90)}`;
}

function vitest(files, title, env = {}) {
  const only = title === undefined ? [] : ["-t", title.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&")];
  return run(["node_modules/vitest/vitest.mjs", "run", ...files, ...only], {
    ...env,
    NO_COLOR: "1",
    EVERBEAT_TEST_DATABASE_URL: server.tcpUrl,
  });
}

function run(args, env) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, { cwd: copy, env: { ...process.env, ...env } });
    let output = "";
    const keep = (text) => {
      output += text;
    };
    child.stdout.on("data", keep);
    child.stderr.on("data", keep);
    child.on("error", reject);
    child.on("exit", (code) => resolve({ code, output }));
  });
}
