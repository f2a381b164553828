import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { GroupMemoryWatch, readGroupMemory, signOf } from "../../src/heart/group-memory.ts";
import { groupAtLast } from "../../src/recovery/memory-outlook.ts";
import { probableCause } from "../../src/recovery/probable-cause.ts";

const MIB = 1_048_576;

/** A system whose files are these. */
function system(files: Record<string, string>): string {
  const root = mkdtempSync(join(tmpdir(), "everbeat-group-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  write(root, files);
  return root;
}

function write(root: string, files: Record<string, string>): void {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, name)), { recursive: true });
    writeFileSync(join(root, name), text);
  }
}

const version2 = (folder: string) => ({
  [`${folder}/memory.max`]: `${512 * MIB}\n`,
  [`${folder}/memory.current`]: `${500 * MIB}\n`,
  [`${folder}/memory.stat`]: `anon 1\ninactive_file ${60 * MIB}\nactive_file ${40 * MIB}\n`,
  [`${folder}/memory.events`]: "low 0\nhigh 0\nmax 7\noom 3\noom_kill 2\noom_group_kill 0\n",
});

describe("the memory of a group", () => {
  test("is its own figures, without the cache of files (version 2)", () => {
    const root = system({ "proc/self/cgroup": "0::/app\n", ...version2("sys/fs/cgroup/app") });
    expect(readGroupMemory(root)).toEqual({ used: 400 * MIB, limit: 512 * MIB, kills: 2 });
  });

  test("is the same by version 1", () => {
    const folder = "sys/fs/cgroup/memory/docker/abc";
    const root = system({
      "proc/self/cgroup": "4:memory:/docker/abc\n0::/\n",
      [`${folder}/memory.limit_in_bytes`]: `${512 * MIB}\n`,
      [`${folder}/memory.usage_in_bytes`]: `${500 * MIB}\n`,
      [`${folder}/memory.stat`]: `cache 9\ntotal_inactive_file ${60 * MIB}\ntotal_active_file ${40 * MIB}\n`,
      [`${folder}/memory.oom_control`]: "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
      "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
      "sys/fs/cgroup/memory/memory.usage_in_bytes": "1\n",
    });
    expect(readGroupMemory(root)).toEqual({ used: 400 * MIB, limit: 512 * MIB, kills: 2 });
  });

  test("counts the kills in the groups below the one with the limit (version 1), which that one does not count", () => {
    const folder = "sys/fs/cgroup/memory/pod";
    const root = system({
      "proc/self/cgroup": "4:memory:/pod/app/worker\n",
      [`${folder}/memory.limit_in_bytes`]: `${512 * MIB}\n`,
      [`${folder}/memory.usage_in_bytes`]: `${500 * MIB}\n`,
      [`${folder}/memory.oom_control`]: "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n",
      [`${folder}/app/memory.limit_in_bytes`]: "9223372036854771712\n",
      [`${folder}/app/memory.oom_control`]: "oom_kill 1\n",
      [`${folder}/app/worker/memory.limit_in_bytes`]: "9223372036854771712\n",
      [`${folder}/app/worker/memory.oom_control`]: "oom_kill 2\n",
      // Kills for want of memory above that limit are none of it.
      "sys/fs/cgroup/memory/memory.oom_control": "oom_kill 7\n",
    });
    expect(readGroupMemory(root)).toEqual({ used: 500 * MIB, limit: 512 * MIB, kills: 3 });
  });

  test("counts each kill once where the group with the limit counts those below it (version 2)", () => {
    const above = "sys/fs/cgroup/pod";
    const root = system({
      "proc/self/cgroup": "0::/pod/app\n",
      ...version2(above),
      ...version2(`${above}/app`),
      [`${above}/app/memory.max`]: "max\n",
    });
    expect(readGroupMemory(root)).toMatchObject({ kills: 2 });
  });

  test("is unknown without a limit, without cgroups, and with files that say something else", () => {
    const unlimited = {
      "proc/self/cgroup": "0::/\n",
      "sys/fs/cgroup/memory.max": "max\n",
      "sys/fs/cgroup/memory.current": "5\n",
    };
    for (const files of [{}, unlimited, { ...unlimited, "sys/fs/cgroup/memory.max": "odd\n" }])
      expect(readGroupMemory(system(files))).toBeUndefined();
  });

  test("is watched: a kill since the look before the last one counts, an older one does not", () => {
    const folder = "sys/fs/cgroup/app";
    const root = system({ "proc/self/cgroup": "0::/app\n", ...version2(folder) });
    const watch = new GroupMemoryWatch(() => readGroupMemory(root));
    expect(watch.sign()?.kills).toBe(0);
    watch.look();
    write(root, { [`${folder}/memory.events`]: "oom_kill 3\n", [`${folder}/memory.current`]: `${200 * MIB}\n` });
    expect(watch.sign()).toEqual({ used: 400 * MIB, limit: 512 * MIB, kills: 1 });
    watch.look();
    expect(watch.sign()?.kills).toBe(1);
    watch.look();
    expect(watch.sign()).toEqual({ used: 100 * MIB, limit: 512 * MIB, kills: 0 });
    expect(signOf([undefined, undefined])).toBeUndefined();
  });
});

describe("a process whose end nobody saw", () => {
  const beat = (agoMs: number, groupUsed: number, groupLimit = 100) => ({ agoMs, vitals: { groupUsed, groupLimit } });
  const told = (...beats: Parameters<typeof groupAtLast>[0]) => {
    const group = groupAtLast(beats);
    const { cause, sentence } = probableCause({ kind: "replica", because: "session-lost", group });
    return { group, cause, sentence };
  };

  test("was probably killed for its memory where its group was full at one of its last two beats", () => {
    expect(told(beat(4_000, 20), beat(2_000, 95), beat(500, 40))).toEqual({
      ...{ group: { used: 95, limit: 100, kills: 0 }, cause: "out-of-memory" },
      sentence:
        "The process was probably killed for its memory: it ended without a word, with its cgroup at 95 % of the limit that all its processes share. Of the processes that share a limit the kernel takes the largest, which need not be the one that grew.",
    });
    expect(told(beat(4_000, 95), beat(2_000, 20), beat(500, 40)).cause).toBe("process-ended");
  });

  test("has no group where no beat told of a limit", () => {
    expect(told(beat(500, 0, 0), { agoMs: 2_500, vitals: null })).toMatchObject({
      group: undefined,
      cause: "process-ended",
    });
  });
});

describe("a process that was killed (SIGKILL) with memory of its own left", () => {
  const memory = { rss: 43, limit: 100, agoMs: 10, growthPerSecond: 0 };
  const told = (kind: "runner" | "replica", group?: { used: number; limit: number; kills: number }) =>
    probableCause({
      ...{ kind, because: kind === "runner" ? "runner-ended" : "exited", signal: "SIGKILL", memory, group },
    });

  test.each([
    ["the kernel counted a kill in its group", { used: 50, limit: 100, kills: 1 }, "out-of-memory"],
    ["its group was at the limit", { used: 97, limit: 100, kills: 0 }, "out-of-memory"],
    ["its group had memory left", { used: 50, limit: 100, kills: 0 }, "killed"],
    ["nothing is known of its group", undefined, "killed"],
  ])("%s", (_, group, cause) => {
    for (const kind of ["runner", "replica"] as const) expect(told(kind, group).cause).toBe(cause);
  });

  test("is not said to have had memory left where nobody counts kills (version 1, before Linux 4.13): the limit may have been full between two looks", () => {
    const looks = [40, 60].map((used) => ({ used, limit: 100, kills: undefined }));
    const { cause, sentence } = told("runner", signOf(looks));
    expect(cause).toBe("killed");
    expect(sentence).toBe(
      "The process was killed (SIGKILL), though at its last beat the process itself was below its limit: by an operator, a supervisor, the kernel or its own code. Nobody saw which.",
    );
  });
});
