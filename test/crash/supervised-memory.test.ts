/** A child that the kernel kills for the memory of its whole cgroup: its supervisor, which is in it too, tells what the group's figures say. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { memoryCgroup, noMemoryCgroup } from "../support/memory-cgroup.ts";
import { startSupervisor, task, untilReady } from "../support/supervisor.ts";

vi.setConfig({ testTimeout: 120_000 });

const without = noMemoryCgroup();
if (without !== undefined) console.warn(`not tested: ${without}`);

/** A process that takes 100 MiB when it is told to: they count for its group, and not for the child. */
async function holdMemory() {
  const script = `process.stdin.once("data", () => { globalThis.held = Buffer.alloc(100 * 1_048_576, 1); console.log("held"); });`;
  const holder = spawn(process.execPath, ["-e", script], { stdio: ["pipe", "pipe", "inherit"] });
  onTestFinished(() => void holder.kill("SIGKILL"));
  await once(holder, "spawn");
  return holder;
}

describe.skipIf(without !== undefined)("a supervisor and its child in a cgroup of 400 MiB", () => {
  async function scene() {
    const cgroup = memoryCgroup(400 * 1_048_576);
    const { everbeat, url } = await openCrashDatabase();
    const supervisor = await startSupervisor({ url, processes: 1 });
    const [child] = await untilReady(supervisor, 1);
    const ballast = await holdMemory();
    for (const pid of [supervisor.pid, child?.pid, ballast.pid]) cgroup.add(pid as number);
    ballast.stdin.write("hold\n");
    await once(ballast.stdout, "data");
    const firstDeath = async () => {
      const found = await eventually(() => everbeat.recovery.postMortems({ kind: "replica" }), {
        ...{ until: ({ length }) => length > 0, within: 60_000, what: "the post-mortem of a child" },
      });
      return found.at(-1);
    };
    return { everbeat, child, firstDeath };
  }

  test("tell of a kill for want of memory by the group's figures, where those of the child say the opposite", async () => {
    const { everbeat, firstDeath } = await scene();
    const id = await everbeat.enqueue(task("grow"), {});
    const told = await firstDeath();
    expect(told).toMatchObject({ cause: "out-of-memory" });
    expect(told?.sentence).toMatch(/killed for its memory.* cgroup/);
    const evidence = told?.evidence.join("\n") ?? "";
    expect(evidence).toMatch(/^its cgroup: \d+ of 400 MiB \(\d+ %\), of all its processes together$/m);
    const [, share] = /^memory: .* \((\d+) %\)/m.exec(evidence) ?? [];
    expect(Number(share)).toBeLessThan(80);
    await expect(everbeat.result(id, { timeout: 30_000 })).rejects.toMatchObject({
      message: expect.stringMatching(
        /its process was ended by SIGKILL\. The process was (probably )?killed for its memory/,
      ),
    });
  });

  test("tell of a kill by somebody else as such, with the group's figures beside it", async () => {
    const { child, firstDeath } = await scene();
    process.kill(child?.pid as number, "SIGKILL");
    const told = await firstDeath();
    expect(told).toMatchObject({ cause: "killed" });
    expect(told?.evidence).toContainEqual(expect.stringMatching(/^its cgroup: \d+ of 400 MiB/));
  });
});
