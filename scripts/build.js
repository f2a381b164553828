// Compiles src/ into dist/ from nothing, so that a file that was removed or renamed never lingers there.
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
// Built aside and then swapped in: a process that starts from dist/ meanwhile never meets half a build.
const fresh = join(root, `dist.${process.pid}`);

const tsc = join(root, "node_modules", "typescript", "bin", "tsc");
const build = spawnSync(process.execPath, [tsc, "-p", join(root, "tsconfig.build.json"), "--outDir", fresh], {
  stdio: "inherit",
});
if (build.status === 0) {
  const entry = join(fresh, "cli", "main.js");
  if (existsSync(entry)) chmodSync(entry, 0o755);
  rmSync(join(root, "dist"), { recursive: true, force: true });
  renameSync(fresh, join(root, "dist"));
}
rmSync(fresh, { recursive: true, force: true });
process.exitCode = build.status ?? 1;
