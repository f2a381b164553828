/** The functions, views and triggers of the schema that ship with this version, in the order in which they are made. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { builtFile, packageFile } from "../package-files.ts";

export interface Routine {
  /** Its file without the ending, such as `claim/claim_tasks`. */
  readonly name: string;
  readonly sql: string;
  readonly checksum: string;
}

const IS_BUILT = import.meta.url.startsWith(pathToFileURL(builtFile("/")).href);

/** What is built has them all in one file: each start looks whether they have changed, and to read two hundred files takes longer. */
export function readRoutines(): readonly Routine[] {
  const files = IS_BUILT ? JSON.parse(readFileSync(builtFile("routines.json"), "utf8")) : readFolder();
  return routinesOf(files);
}

export function routinesOf(files: Readonly<Record<string, string>>): readonly Routine[] {
  const routines = Object.entries(files).map(([file, sql]) => {
    const checksum = createHash("sha256").update(sql).digest("hex").slice(0, 32);
    return { name: file.replace(/\.sql$/, ""), sql, checksum };
  });
  return routines.sort((one, other) => (orderOf(one) < orderOf(other) ? -1 : 1));
}

/** Views are made last, because they call functions. A function is not looked into when it is made, so it may call any other. */
function orderOf({ name }: Routine): string {
  return name.startsWith("views/") ? `1/${name}` : `0/${name}`;
}

function readFolder(): Record<string, string> {
  const folder = packageFile("migrations/routines");
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".sql"));
  return Object.fromEntries(
    files.map((file) => [file.replaceAll("\\", "/"), readFileSync(join(folder, file), "utf8")]),
  );
}
