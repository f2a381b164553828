// Runs a command with EVERBEAT_TEST_DATABASE_URL set to a PostgreSQL of Debian's package, in a temporary folder.
import { spawn } from "node:child_process";
import { join } from "node:path";
import { createCluster } from "../test/support/debian-cluster.js";

const [command, ...args] = process.argv.slice(2);
const cluster = await createCluster();
const child = spawn(join("node_modules", ".bin", command ?? "vitest"), args, {
  stdio: "inherit",
  env: { ...process.env, EVERBEAT_TEST_DATABASE_URL: cluster.url },
});
child.on("exit", (code) => {
  cluster.stop("immediate");
  cluster.remove();
  process.exitCode = code ?? 1;
});
