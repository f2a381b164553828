// Runs what `npm test` runs several times in a row, and says of each run how it went: `npm run test:again -- RUNS [--load N]`.
// With --load, N processes keep the machine busy meanwhile. Exit 1: something failed in one of the runs.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { delimiter, dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs, stripVTControlCharacters } from "node:util";

/** Ends with the process that started it, however that one ends. */
const BUSY = `process.on("disconnect", () => process.exit());
(function work() { for (const until = Date.now() + 50; Date.now() < until; ); setImmediate(work); })();`;

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const env = { ...process.env, PATH: `${join(root, "node_modules", ".bin")}${delimiter}${process.env.PATH}` };
const { positionals, values } = parseArgs({ allowPositionals: true, options: { load: { type: "string" } } });
const [runs, load] = [Number(positionals[0]), Number(values.load ?? 0)];
if (positionals.length !== 1 || !(runs >= 1) || !(load >= 0)) {
  console.error("How often? npm run test:again -- RUNS [--load N]");
  process.exit(2);
}

const folder = mkdtempSync(join(tmpdir(), "everbeat-test-again-"));
const children = new Set();
process.on("exit", () => {
  for (const child of children) child.kill();
  rmSync(folder, { recursive: true, force: true });
});
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));

const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const [build, tests] = scripts.test.split(" && ").map((command) => command.split(" "));
if ((await run(build, "inherit")) !== 0) process.exit(1);
for (let n = 0; n < load; n++) start([process.execPath, "-e", BUSY], ["ignore", "ignore", "inherit", "ipc"]);
for (let n = 1; n <= runs; n++) {
  const { line, failed } = await testOnce(join(folder, `${n}.json`));
  console.log(`${n}  ${line}`);
  for (const name of failed) console.log(`     ✗ ${name}`);
  if (failed.length > 0) process.exitCode = 1;
}
process.exit();

async function testOnce(file) {
  const startedMs = performance.now();
  const words = `${file}.txt`;
  const output = openSync(words, "w");
  const reporters = ["--reporter=json", `--outputFile=${file}`, "--reporter=default"];
  const code = await run([...tests, ...reporters], output);
  closeSync(output);
  const took = `${((performance.now() - startedMs) / 1000).toFixed(0)} s, load ${loadavg()[0].toFixed(1)}`;
  if (!existsSync(file)) return { line: took, failed: [`vitest wrote no report, and exited with ${code}`] };
  const { testResults, numPassedTests, numFailedTests } = JSON.parse(readFileSync(file, "utf8"));
  const failed = testResults.flatMap(({ name: path, status, assertionResults }) => {
    const name = relative(root, path);
    const tests = assertionResults.filter((test) => test.status === "failed");
    if (status === "failed" && tests.length === 0) return [`${name}: could not be run`];
    return tests.map(({ fullName, failureMessages }) => `${name}: ${fullName}${why(failureMessages)}`);
  });
  // As by an error that no test has awaited.
  if (code !== 0 && failed.length === 0) failed.push(`no test, but vitest exited with ${code}${unhandled(words)}`);
  return { line: `${took}: ${numPassedTests} passed, ${numFailedTests} failed`, failed };
}

/** The beginning of the first message: a test that fails once in twenty runs may not do so again when it is looked at. */
function why([message = ""]) {
  return message
    .split("\n")
    .slice(0, 12)
    .map((line) => `\n         ${line}`)
    .join("");
}

/** What vitest says of errors that no test has awaited: the JSON has nothing of them. */
function unhandled(file) {
  const lines = stripVTControlCharacters(readFileSync(file, "utf8")).split("\n");
  const from = lines.findIndex((line) => line.includes("Unhandled"));
  return from < 0
    ? ""
    : lines
        .slice(from, from + 40)
        .map((line) => `\n         ${line}`)
        .join("");
}

async function run(command, output) {
  const [code] = await once(start(command, ["ignore", output, output]), "exit");
  return code;
}

function start([program, ...args], stdio) {
  const child = spawn(program, args, { cwd: root, stdio, env });
  children.add(child);
  child.once("exit", () => children.delete(child));
  return child;
}
