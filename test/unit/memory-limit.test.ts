import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir, totalmem } from "node:os";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { readMemoryLimit } from "../../src/heart/memory-limit.ts";

const MIB = 1_048_576;

/** A system whose files are these. */
function system(files: Record<string, string>): string {
  const root = mkdtempSync(join(tmpdir(), "everbeat-cgroup-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, name)), { recursive: true });
    writeFileSync(join(root, name), text);
  }
  return root;
}

test.each([
  ["without cgroups, all of the machine's", {}, totalmem()],
  [
    "in a container, its own (version 2)",
    { "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": `${64 * MIB}\n` },
    64 * MIB,
  ],
  [
    "in a container without a limit, all of the machine's",
    { "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n" },
    totalmem(),
  ],
  [
    "of a service on a host, its own",
    {
      "proc/self/cgroup": "0::/system.slice/app.service\n",
      "sys/fs/cgroup/system.slice/app.service/memory.max": `${32 * MIB}\n`,
      "sys/fs/cgroup/system.slice/memory.max": "max\n",
    },
    32 * MIB,
  ],
  [
    "of a group above it, where that is smaller",
    {
      "proc/self/cgroup": "0::/pod/container\n",
      "sys/fs/cgroup/pod/container/memory.max": "max\n",
      "sys/fs/cgroup/pod/memory.max": `${16 * MIB}\n`,
    },
    16 * MIB,
  ],
  [
    "by version 1, among other controllers",
    {
      "proc/self/cgroup": "9:cpu,cpuacct:/\n4:memory:/docker/abc\n0::/\n",
      "sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": `${48 * MIB}\n`,
      "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    },
    48 * MIB,
  ],
  [
    "by version 1 with a path that only the host can see, that of the root",
    { "proc/self/cgroup": "4:memory:/docker/abc\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": `${48 * MIB}\n` },
    48 * MIB,
  ],
])("the memory limit is, %s", (_, files, limit) => {
  expect(readMemoryLimit(system(files))).toBe(limit);
});
