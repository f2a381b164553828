/** Where this package's own files are, wherever the code that asks was compiled or bundled to. */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = rootAbove(dirname(fileURLToPath(import.meta.url)));

export function packageFile(path: string): string {
  return join(ROOT, path);
}

/** Also run from sources, in our own tests, threads and processes start from what is compiled: plain Node cannot run TypeScript. */
export function builtFile(path: string): string {
  return packageFile(join("dist", path));
}

function rootAbove(folder: string): string {
  return existsSync(join(folder, "package.json")) ? folder : rootAbove(dirname(folder));
}
