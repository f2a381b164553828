// Compiles src/ into dist/ from nothing, so that a file that was removed or renamed never lingers there.
import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const fresh = join(root, `dist.${process.pid}`);

// Built aside and then swapped in: a process that is running from dist/ never meets half a build.
const tsc = join(root, "node_modules", "typescript", "bin", "tsc");
execFileSync(process.execPath, [tsc, "-p", join(root, "tsconfig.build.json"), "--outDir", fresh], { stdio: "inherit" });
mkdirSync(fresh, { recursive: true });
const entry = join(fresh, "cli", "main.js");
if (existsSync(entry)) chmodSync(entry, 0o755);
rmSync(join(root, "dist"), { recursive: true, force: true });
renameSync(fresh, join(root, "dist"));
