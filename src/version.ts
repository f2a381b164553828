/** The version of this package, read from where npm keeps it. */
import { readFileSync } from "node:fs";
import { packageFile } from "./package-files.ts";

export const VERSION: string = (JSON.parse(readFileSync(packageFile("package.json"), "utf8")) as { version: string })
  .version;
