/** Writes docs/performance.md and its plots from a file of results, so that they never show other figures. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { writePage } from "./page.js";
import { drawPlots } from "./plots.js";

const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
const PAGE = join(root, "docs", "performance.md");

/** What is written from these results, by path from the project's folder. */
export function docsFrom(file) {
  const results = JSON.parse(readFileSync(file, "utf8"));
  const plots = drawPlots(results);
  const before = existsSync(PAGE) ? readFileSync(PAGE, "utf8") : "";
  const page = writePage({ results, file: relative(root, file), plots, before });
  const images = Object.entries(plots).map(([name, svg]) => [join("docs", "images", name), svg]);
  return Object.fromEntries([[relative(root, PAGE), page], ...images]);
}

export function writeDocs(given) {
  const file = given === undefined ? newestResults() : join(process.cwd(), given);
  const written = docsFrom(file);
  for (const [path, text] of Object.entries(written)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return { file: relative(root, file), written: Object.keys(written) };
}

/** A full run before a short one; their names begin with their dates. */
function newestResults() {
  const folder = join(root, "bench", "results");
  const files = readdirSync(folder)
    .filter((name) => name.endsWith(".json"))
    .sort();
  const name = files.filter((one) => !one.includes("-short")).at(-1) ?? files.at(-1);
  if (name === undefined) throw new Error("There are no results in bench/results: run npm run bench first.");
  return join(folder, name);
}
