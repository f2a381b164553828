/** A child that the kernel kills for the memory of its whole cgroup: its supervisor, which is in it too, tells what the group's figures say. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { unchargedWords } from "../../src/recovery/uncharged-words.ts";
import { openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { memoryCgroup, noMemoryCgroup } from "../support/memory-cgroup.ts";
import { startSupervisor, task, untilReady } from "../support/supervisor.ts";
import { startWorker } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 120_000 });

const without = noMemoryCgroup();
if (without !== undefined) console.warn(`not tested: ${without}`);

/** A process that takes so much memory when it is told to: it counts for its group, and not for the child. */
async function holdMemory(mib = 160) {
  const script = `process.stdin.once("data", () => { globalThis.held = Buffer.alloc(${mib} * 1_048_576, 1); console.log("held"); });`;
  const holder = spawn(process.execPath, ["-e", script], { stdio: ["pipe", "pipe", "inherit"] });
  onTestFinished(() => void holder.kill("SIGKILL"));
  await once(holder, "spawn");
  return holder;
}

describe.skipIf(without !== undefined)("a supervisor and its child in a cgroup of 400 MiB", () => {
  async function scene(options: { below?: string } = {}) {
    const cgroup = memoryCgroup(400 * 1_048_576, options);
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

  test("tell of a kill that the kernel counted where the limit is that of a group above", async () => {
    const { everbeat, firstDeath } = await scene({ below: "app" });
    await everbeat.enqueue(task("grow"), {});
    expect((await firstDeath())?.evidence).toContainEqual(
      expect.stringMatching(/^the kernel counted \d+ kills? for want/),
    );
  });

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

test.skipIf(without !== undefined)(
  "a child that is killed for the memory of its cgroup makes suspects of all who ran in its supervisor's children",
  async () => {
    const cgroup = memoryCgroup(480 * 1_048_576);
    const database = await openCrashDatabase();
    const { everbeat, url } = database;
    const supervisor = await startSupervisor({ url, processes: 2, arguments: ["--concurrency", "1"] });
    const children = await untilReady(supervisor, 2);
    for (const pid of [supervisor.pid, ...children.map(({ pid }) => pid)]) cgroup.add(pid as number);
    // The largest by far, which does not grow.
    const innocent = await everbeat.enqueue(task("keep"), { mib: 280 });
    await eventually(() => everbeat.tasks.show(innocent), {
      until: ({ state }) => state === "running",
      within: 30_000,
    });
    const grower = await everbeat.enqueue(task("grow"), {});
    // Which of the children is killed, the kernel says: mostly that of the largest, sometimes that of the one that grows, or both. The latter does not
    // run again after a crash, and is no suspect then.
    const suspicions = () =>
      database.query<{ task_id: string; is_charged: boolean }>(
        "select task_id::text, is_charged from everbeat.suspicion",
      );
    const crashed = async () => {
      const shown = await Promise.all([innocent, grower].map((id) => everbeat.tasks.show(id)));
      return shown.flatMap(({ attempts }) => attempts.flatMap(({ error }) => error ?? []));
    };
    await eventually(suspicions, {
      until: (rows) => rows.some(({ task_id }) => task_id === innocent),
      ...{ within: 60_000, what: "a suspicion" },
    });
    const [error] = await eventually(crashed, { until: ({ length }) => length > 0, what: "the end of an attempt" });
    // Each ran alone in its worker.
    expect(unchargedWords(error)).toContain("1 other task ran, or had just run, in the workers that share");
    const isSuspect = (await suspicions()).some(({ task_id }) => task_id === grower);
    expect(isSuspect || (await everbeat.tasks.show(grower)).error?.code === "WORKER_CRASHED").toBe(true);
    expect((await suspicions()).filter(({ is_charged }) => is_charged)).toEqual([]);
    expect([await database.crashesOf(innocent), await database.crashesOf(grower)]).toEqual([0, 0]);
  },
);

test.skipIf(without !== undefined)(
  "workers that nobody supervises leave the memory of their cgroup on record: they are killed all at once, and it is known why",
  async () => {
    const cgroup = memoryCgroup(400 * 1_048_576);
    const database = await openCrashDatabase();
    const tasks = [{ handler: "wait" }] as const;
    const workers = [await startWorker({ url: database.url, tasks }), await startWorker({ url: database.url, tasks })];
    const ballast = await holdMemory(370);
    for (const pid of [...workers.map((worker) => worker.pid), ballast.pid]) cgroup.add(pid as number);
    ballast.stdin.write("hold\n");
    await once(ballast.stdout, "data");
    for (const { replicaId } of workers)
      await eventually(async () => (await database.replica(replicaId)).vitals, {
        until: (vitals) => vitals !== null && vitals.groupUsed >= 0.9 * 400 * 1_048_576,
        ...{ within: 30_000, what: "a beat that tells of the full group" },
      });
    // As the kernel does it with memory.oom.group: nobody in the container is left to tell.
    for (const worker of workers) worker.signal("SIGKILL");
    ballast.kill("SIGKILL");
    await startWorker({ url: database.url, tasks });
    const told = await eventually(() => database.everbeat.recovery.postMortems({ kind: "replica" }), {
      ...{ until: ({ length }) => length === 2, within: 60_000, what: "both post-mortems" },
    });
    for (const { cause, sentence, evidence } of told) {
      expect(cause).toBe("out-of-memory");
      expect(sentence).toMatch(/ended without a word, with its cgroup at 9\d %/);
      expect(evidence).toContainEqual(expect.stringMatching(/^its cgroup: \d+ of 400 MiB/));
    }
  },
);
