// Loaded before a worker: writes a line to a file each time that the main thread asks which cgroups it is in.
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { isMainThread } from "node:worker_threads";

const file = new URL(import.meta.url).searchParams.get("file");
const { readFileSync } = fs;
fs.readFileSync = (path, ...rest) => {
  if (isMainThread && path === "/proc/self/cgroup") fs.appendFileSync(file, "read\n");
  return readFileSync(path, ...rest);
};
syncBuiltinESMExports();
