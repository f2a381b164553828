/** How much memory this process may have before it is killed for it: its cgroups' limits (v2 and v1), or all of the machine's. */
import { readFileSync } from "node:fs";
import { totalmem } from "node:os";
import { join, posix } from "node:path";

export function readMemoryLimit(root = "/"): number {
  const limits = limitFiles(readText(join(root, "proc/self/cgroup")) ?? "")
    .map((file) => Number(readText(join(root, file))?.trim() || Number.NaN))
    // "max" is no number, and version 1 says "none" with one beyond all memory.
    .filter((limit) => limit > 0);
  return Math.min(totalmem(), ...limits);
}

/**
 * The files that may hold a limit: of its own group and of every group above it, each of which counts. In a container the own
 * group is often shown as the root, or by a path that only the host can see; what is not there is passed over.
 */
export function limitFiles(cgroups: string): string[] {
  const files = cgroups.split("\n").flatMap((line) => {
    const [, hierarchy, controllers = "", path] = /^(\d+):([^:]*):(.*)$/.exec(line) ?? [];
    if (path === undefined) return [];
    if (hierarchy === "0") return upwards("/sys/fs/cgroup", path, "memory.max");
    if (controllers.split(",").includes("memory"))
      return upwards("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes");
    return [];
  });
  return [...files, "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
}

function upwards(mount: string, path: string, file: string): string[] {
  const own = posix.join(mount, path);
  const above = own === mount || path === "/" ? [] : upwards(mount, posix.dirname(path), file);
  return [posix.join(own, file), ...above];
}

export function readText(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}
