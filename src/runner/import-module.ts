/** Imports a user's module, in JavaScript or TypeScript, on any Node that we support. */
import { extname, join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Jiti } from "jiti";

export type Importer = (path: string) => Promise<Record<string, unknown>>;

/**
 * JavaScript is Node's own business; TypeScript goes through jiti, since Node 20 cannot run it. Most commands and runners never need
 * jiti, and to load it is a quarter of their start.
 */
export function createImporter(cwd: string, everbeat: () => Promise<Record<string, unknown>>): Importer {
  process.setSourceMapsEnabled(true);
  let jiti: Promise<Jiti> | undefined;
  return async (path) => {
    if (!/^\.[cm]?ts$/.test(extname(path))) return import(pathToFileURL(path).href);
    jiti ??= everbeat().then((module) => createTypeScriptImporter(cwd, module));
    return (await jiti).import(path);
  };
}

async function createTypeScriptImporter(cwd: string, everbeat: Record<string, unknown>): Promise<Jiti> {
  const { createJiti } = await import("jiti");
  return createJiti(join(cwd, "tasks.ts"), {
    interopDefault: false,
    sourceMaps: true,
    // It would lie in the temporary folder, where another user of the machine could have put code for us to run.
    fsCache: false,
    tsconfigPaths: true,
    // One copy of Everbeat in the process: a handler that asks `instanceof ClaimLostError` must mean the worker's class.
    virtualModules: { everbeat },
  });
}
