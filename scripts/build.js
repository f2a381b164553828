// Compiles src/ into dist/ from nothing, so that a file that was removed or renamed never lingers there, and bundles it:
// a hundred small modules cost a process ten megabytes and a tenth of a second that a few larger ones do not.
import { spawnSync } from "node:child_process";
import { chmodSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
// Built aside and then swapped in: a process that starts from dist/ meanwhile never meets half a build.
const fresh = join(root, `dist.${process.pid}`);

/** What somebody imports, or a process or a thread starts from that may meet the user's code: they share their parts. */
const TOGETHER = [
  "index",
  "testing/index",
  "cli/main",
  "cli/demo/demo-worker-tasks",
  "cli/demo/demo-tasks",
  "runner-entry/runner-process",
  "runner-entry/runner-thread",
  "database/embedded/embedded-server",
];
/** Started or loaded by us alone, each in one file: shared with these, everything would be in twice as many parts. */
const APART = ["heart/thread-stack", "database/embedded/keeper"];
/** The same, and a thread: one that starts from CommonJS loads two dozen of Node's own modules fewer. */
const THREAD = "runner-entry/runner-heart-thread";
/** The same, with the driver in it: a worker waits for its heart, and to find and load thirty files takes a thread half as long as its own start. */
const COMPLETE_THREAD = "heart/heart-thread";
const COMMON_JS = { format: "cjs", outExtension: { ".js": ".cjs" } };
/** In the part that has the operations, what they use of it: whole and in pieces it takes a command six times as long to load. */
const INCLUDED = { zod: join(root, "node_modules", "zod", "index.js") };

const tsc = join(root, "node_modules", "typescript", "bin", "tsc");
const types = [tsc, "-p", join(root, "tsconfig.build.json"), "--outDir", fresh, "--emitDeclarationOnly"];
const { status } = spawnSync(process.execPath, types, { stdio: "inherit" });
if (status === 0) {
  const together = await bundle(TOGETHER, { alias: INCLUDED, metafile: true });
  for (const entry of APART) await bundle([entry]);
  await bundle([THREAD], COMMON_JS);
  const { metafile } = await bundle([COMPLETE_THREAD], {
    ...COMMON_JS,
    ...{ packages: "bundle", external: ["pg-native", "pg-cloudflare"], metafile: true },
    // By these the driver would find out whether it runs at Cloudflare. To touch the second one makes Node 20 load its whole HTTP client.
    define: { navigator: "undefined", Response: "undefined" },
  });
  writeRoutines();
  writeLicences("licenses.txt", "parts/", together.metafile);
  writeLicences(`${COMPLETE_THREAD}.licenses.txt`, "heart-thread.cjs", metafile);
  chmodSync(join(fresh, "cli", "main.js"), 0o755);
  rmSync(join(root, "dist"), { recursive: true, force: true });
  renameSync(fresh, join(root, "dist"));
}
rmSync(fresh, { recursive: true, force: true });
process.exitCode = status ?? 1;

function bundle(entries, options = {}) {
  return build({
    entryPoints: entries.map((entry) => join(root, "src", `${entry}.ts`)),
    ...{ outdir: fresh, outbase: join(root, "src"), bundle: true, splitting: entries.length > 1, packages: "external" },
    ...{ format: "esm", platform: "node", target: "node20", sourcemap: true, chunkNames: "parts/[hash]" },
    ...{ logLevel: "warning", absWorkingDir: root, ...options },
  });
}

/** All functions, views and triggers of the schema in one file, as src/database/routines.ts reads them. */
function writeRoutines() {
  const folder = join(root, "migrations", "routines");
  const files = readdirSync(folder, { recursive: true }).filter((file) => file.endsWith(".sql"));
  const texts = files.map((file) => [file.replaceAll("\\", "/"), readFileSync(join(folder, file), "utf8")]);
  writeFileSync(join(fresh, "routines.json"), JSON.stringify(Object.fromEntries(texts)));
}

/** Of the packages that this is made from. */
function writeLicences(file, what, { inputs }) {
  const text = `${what} contains parts of these packages.\n\n${licencesOf(Object.keys(inputs))}`;
  writeFileSync(join(fresh, file), text);
}

function licencesOf(files) {
  const folders = files.map((file) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(file)?.[1]);
  const texts = [...new Set(folders)].filter(Boolean).map((folder) => {
    const { name, version, license, author } = JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8"));
    const file = readdirSync(join(root, folder)).find((found) => /^licen[cs]e/i.test(found));
    const by = `by ${author?.name ?? author}`;
    return `${name} ${version} (${license})\n\n${file ? readFileSync(join(root, folder, file), "utf8").trim() : by}\n`;
  });
  return texts.join(`\n${"-".repeat(80)}\n\n`);
}
