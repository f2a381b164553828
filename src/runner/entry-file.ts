/** The file that a runner starts from. */
import { fileURLToPath } from "node:url";

/** Run from sources (in our own tests), the runner is the compiled one: plain Node cannot run TypeScript. */
export function entryFile(name: string): string {
  const folder = import.meta.url.endsWith(".ts") ? "../../dist/runner-entry/" : "../runner-entry/";
  return fileURLToPath(new URL(folder + name, import.meta.url));
}
