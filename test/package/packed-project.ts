/** A project somewhere else into which the packed package was installed, as a user would: what is not in it, is missing. */

import { execFile } from "node:child_process";
import { chmod, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { stopEmbeddedServer } from "../../src/database/embedded/embedded-server.ts";

const run = promisify(execFile);
export const repository = fileURLToPath(new URL("../..", import.meta.url));

export interface PackedProject {
  readonly folder: string;
  readonly tarball: string;
  /** The paths in the tarball. */
  readonly packed: readonly string[];
  /** Runs a program in the project, without a database of anybody's. */
  run(program: string, args: readonly string[]): Promise<Ended>;
  /** Compiles a TypeScript text against what is installed; returns what the compiler said. */
  compile(text: string): Promise<string>;
  remove(): Promise<void>;
}

export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export async function installPacked(): Promise<PackedProject> {
  const folder = await mkdtemp(join(tmpdir(), "everbeat-package-"));
  // Open to the user of an embedded server, so that its data is in there, and goes with it.
  await chmod(folder, 0o755);
  const { stdout } = await run("npm", ["pack", "--json", "--pack-destination", folder], { cwd: repository });
  const [pack] = JSON.parse(stdout) as { filename: string; files: { path: string }[] }[];
  if (!pack) throw new Error(`npm pack said ${stdout}`);
  await writeFile(join(folder, "package.json"), JSON.stringify({ name: "consumer", private: true, type: "module" }));
  await run("npm", ["install", "--no-audit", "--no-fund", "--prefer-offline", `./${pack.filename}`], { cwd: folder });
  await useNodeTypes(folder);
  return {
    folder,
    tarball: join(folder, pack.filename),
    packed: pack.files.map((file) => file.path),
    run: (program, args) => runIn(folder, program, args),
    compile: (text) => compileIn(folder, text),
    async remove() {
      // Its keeper would lose the files that it runs from.
      await stopEmbeddedServer(join(folder, ".everbeat"));
      await rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 250 });
    },
  };
}

/** Every TypeScript project on Node has these; ours are as good as any. */
async function useNodeTypes(folder: string): Promise<void> {
  const types = join(folder, "node_modules", "@types");
  await mkdir(types, { recursive: true });
  if (!(await readdir(types)).includes("node"))
    await symlink(join(repository, "node_modules", "@types", "node"), join(types, "node"));
}

async function runIn(folder: string, program: string, args: readonly string[]): Promise<Ended> {
  const env = { ...process.env, DATABASE_URL: "", EVERBEAT_FOLDER: join(folder, ".everbeat"), NODE_OPTIONS: "" };
  try {
    return { code: 0, ...(await run(program, args, { cwd: folder, env })) };
  } catch (error) {
    const { code, stdout, stderr } = error as Ended;
    return { code, stdout, stderr };
  }
}

async function compileIn(folder: string, text: string): Promise<string> {
  const options = {
    target: "ES2022",
    module: "NodeNext",
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    // Our own declarations are checked too, not only how they are used.
    skipLibCheck: false,
    types: ["node"],
    noEmit: true,
  };
  await writeFile(join(folder, "main.ts"), text);
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions: options, files: ["main.ts"] }));
  const { stdout } = await runIn(folder, process.execPath, [join(repository, "node_modules/typescript/bin/tsc")]);
  return stdout;
}
