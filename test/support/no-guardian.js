// Loaded before a worker and its runners: there is no shell for a guardian, or it is one that cannot be started.
import childProcess from "node:child_process";
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";

const how = new URL(import.meta.url).searchParams.get("how");
const { existsSync } = fs;
const { spawn } = childProcess;

if (how === "missing") fs.existsSync = (path) => path !== "/bin/sh" && existsSync(path);
if (how === "not executable")
  childProcess.spawn = (command, ...rest) => spawn(isGuardian(rest) ? "/dev/null" : command, ...rest);
if (how === "refused at once")
  childProcess.spawn = (command, ...rest) => {
    if (isGuardian(rest)) throw Object.assign(new Error("spawn ENOMEM"), { code: "ENOMEM" });
    return spawn(command, ...rest);
  };
syncBuiltinESMExports();

function isGuardian([given]) {
  return Array.isArray(given) && given.includes("everbeat-guardian");
}
