/** A task that brings its runner down takes nothing else with it: its attempt ends at once, with what is known of the end. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { type CrashDatabase, openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { memoryCgroup, noMemoryCgroup } from "../support/memory-cgroup.ts";
import { type RunnerTask, startRunnerWorker, task } from "../support/runner-worker.ts";

vi.setConfig({ testTimeout: 120_000 });
const TASKS: readonly RunnerTask[] = [
  { handler: "die", runIn: "process" },
  { handler: "look", runIn: "process" },
  { handler: "wait" },
];

async function crashesOf({ query }: CrashDatabase, id: string): Promise<number | undefined> {
  const [row] = await query<{ crashes: number }>("select crashes from everbeat.tasks where id = $1", [id]);
  return row?.crashes;
}

const WAYS = [
  ["process.exit(3)", "exit", { exitCode: 3, signal: null }, "exited"],
  ["SIGSEGV", "SIGSEGV", { exitCode: null, signal: "SIGSEGV" }, "native-crash"],
  ["process.abort()", "abort", { exitCode: null, signal: "SIGABRT" }, "aborted"],
  ["SIGKILL", "SIGKILL", { exitCode: null, signal: "SIGKILL" }, "killed"],
  ["no memory left on its heap", "memory", { exitCode: null, signal: "SIGABRT" }, "heap-out-of-memory"],
] as const;

describe("a process that dies while it runs a task", () => {
  test.each(WAYS)(
    "by %s: the task fails at once with that on record, and its replica works on",
    async (_, how, exit, cause) => {
      const database = await openCrashDatabase();
      const { everbeat, url, expectSound } = database;
      const work = { runners: { processes: 1, heapLimit: "48MB" } } as const;
      const worker = await startRunnerWorker({ url, tasks: TASKS, work });
      const id = await everbeat.enqueue(task("die"), { how });
      const { pid } = await worker.heard({ said: "begun", taskId: id });
      const error = await everbeat.result(id, { timeout: 30_000 }).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({
        code: "WORKER_CRASHED",
        error: { because: "runner-ended", replicaId: worker.replicaId, runner: { pid, kind: "process", ...exit } },
      });
      expect((error as Error).message).toContain(exit.signal ?? `code ${exit.exitCode}`);
      expect(await worker.heard({ event: "runner.ended", pid: pid as number })).toMatchObject({
        because: "exited",
        claimId: (await everbeat.tasks.show(id)).claimId,
        ...exit,
      });
      expect(await crashesOf(database, id)).toBe(1);
      const [postMortem] = await eventually(() => everbeat.recovery.postMortems({ of: id }), {
        until: (found) => found.length > 0,
      });
      expect(postMortem).toMatchObject({ kind: "runner", cause, taskId: id, replicaId: worker.replicaId });
      expect((error as Error).message).toContain(postMortem?.sentence);
      // Another takes its place, in the same replica.
      const next = (await everbeat.result(await everbeat.enqueue(task("look"), {}), { timeout: 30_000 })) as {
        pid: number;
      };
      expect(next.pid).not.toBe(pid);
      const ended = await eventually(async () => (await everbeat.runners()).find((row) => row.pid === pid && row.exit));
      expect(ended).toMatchObject({
        ...{ replicaId: worker.replicaId, kind: "process", status: "ended" },
        exit: { code: exit.exitCode, signal: exit.signal, because: "exited" },
      });
      expect((await everbeat.replicas()).map(({ id: replicaId, status }) => [replicaId, status])).toEqual([
        [worker.replicaId, "online"],
      ]);
      await expectSound();
    },
  );

  test("goes by the task's onCrash: run again, charged to its crashes and not to its retries", async () => {
    const database = await openCrashDatabase();
    const { everbeat, url, expectSound } = database;
    const tasks = [{ ...TASKS[0], handler: "die", onCrash: "requeue" }] as const;
    const worker = await startRunnerWorker({ url, tasks, work: { runners: { processes: 1 } } });
    const id = await everbeat.enqueue(task("die"), { how: "exit", once: true });
    expect(await everbeat.result(id, { timeout: 30_000 })).toBe("survived");
    const shown = await everbeat.tasks.show(id);
    expect(shown).toMatchObject({ attempt: 2, failures: 0, replicaId: worker.replicaId });
    expect(await crashesOf(database, id)).toBe(1);
    expect(shown.attempts.map(({ outcome }) => outcome)).toEqual(["crashed", "completed"]);
    await expectSound();
  });

  test("again and again: the crash budget is spent, and it is not tried any more", async () => {
    const database = await openCrashDatabase();
    const { everbeat, url } = database;
    const tasks = [{ handler: "die", runIn: "process", onCrash: "requeue" }] as const;
    await startRunnerWorker({ url, tasks, work: { runners: { processes: 1 } } });
    const id = await everbeat.enqueue(task("die"), { how: "SIGKILL" });
    await expect(everbeat.result(id, { timeout: 40_000 })).rejects.toMatchObject({ state: "failed" });
    expect(await everbeat.tasks.show(id)).toMatchObject({ attempt: 3, failures: 0 });
    expect(await crashesOf(database, id)).toBe(3);
  });

  test("takes none of its replica's other tasks with it, inline or in other runners", async () => {
    const database = await openCrashDatabase();
    const { everbeat, url } = database;
    const worker = await startRunnerWorker({
      url,
      tasks: [...TASKS, { handler: "obey", runIn: "process" }],
      work: { runners: { processes: 2 } },
    });
    const beside = await everbeat.enqueue(task("obey"), {});
    await worker.heard({ said: "begun", taskId: beside });
    const id = await everbeat.enqueue(task("die"), { how: "SIGSEGV" });
    await everbeat.result(id, { timeout: 30_000 }).catch(() => {});
    expect(await everbeat.tasks.show(beside)).toMatchObject({ state: "running", attempt: 1 });
    expect(await crashesOf(database, beside)).toBe(0);
    expect(await everbeat.result(await everbeat.enqueue(task("wait"), {}), { timeout: 30_000 })).toBe("inline");
    await everbeat.tasks.cancel(beside);
    await expect(everbeat.result(beside, { timeout: 30_000 })).rejects.toMatchObject({ state: "cancelled" });
  });
});

describe("a thread", () => {
  test.each([
    ["process.exit(3)", "exit", { exitCode: 3 }],
    ["no memory left on its heap", "memory", { exitCode: 1, kind: "thread" }],
  ] as const)("that ends by %s fails its task, and the process lives on", async (_, how, exit) => {
    const { everbeat, url, expectSound } = await openCrashDatabase();
    const tasks: RunnerTask[] = [
      { handler: "die", runIn: "thread" },
      { handler: "look", runIn: "thread" },
    ];
    const worker = await startRunnerWorker({
      url,
      tasks,
      work: { runners: { threads: 1, heapLimit: "48MB" } },
    });
    const id = await everbeat.enqueue(task("die"), { how });
    await expect(everbeat.result(id, { timeout: 30_000 })).rejects.toMatchObject({
      code: "WORKER_CRASHED",
      error: { because: "runner-ended", runner: { kind: "thread", ...exit } },
    });
    const next = await everbeat.result(await everbeat.enqueue(task("look"), {}), { timeout: 30_000 });
    expect(next).toMatchObject({ pid: worker.pid });
    await expectSound();
  });
});

const without = noMemoryCgroup();
test.skipIf(without !== undefined)(
  `a runner that the kernel kills for its memory (a cgroup's limit)${without ? ` [${without}]` : ""}`,
  async () => {
    const { everbeat, url, expectSound } = await openCrashDatabase();
    const tasks: RunnerTask[] = [
      { handler: "growForEver", runIn: "process" },
      { handler: "look", runIn: "process" },
    ];
    const worker = await startRunnerWorker({ url, tasks, work: { runners: { processes: 1 } } });
    const cgroup = memoryCgroup(200 * 1_048_576);
    const { pid } = await worker.heard({ event: "runner.started" });
    cgroup.add(pid as number);
    const id = await everbeat.enqueue(task("growForEver"), {});
    await expect(everbeat.result(id, { timeout: 60_000 })).rejects.toMatchObject({
      code: "WORKER_CRASHED",
      message: expect.stringContaining("probably killed for its memory: SIGKILL"),
      error: { because: "runner-ended", runner: { pid, signal: "SIGKILL" } },
    });
    await everbeat.result(await everbeat.enqueue(task("look"), {}), { timeout: 30_000 });
    expect((await everbeat.replicas()).map(({ status }) => status)).toEqual(["online"]);
    await expectSound();
  },
);

test.skipIf(without !== undefined)(
  `a runner that the kernel kills for a limit that several processes share${without ? ` [${without}]` : ""}`,
  async () => {
    const { everbeat, url } = await openCrashDatabase();
    const tasks: RunnerTask[] = [{ handler: "growForEver", runIn: "process" }, { handler: "look" }];
    const worker = await startRunnerWorker({ url, tasks, work: { runners: { processes: 2 } } });
    const cgroup = memoryCgroup(500 * 1_048_576);
    cgroup.add(worker.pid);
    cgroup.add((await worker.heard({ event: "runner.started" })).pid as number);
    // The second runner is started by the worker, in the worker's group.
    const ids = await everbeat.enqueueMany(task("growForEver"), [{}, {}]);
    const [first] = await eventually(() => everbeat.recovery.postMortems({ kind: "runner" }), {
      until: ({ length }) => length > 0,
      within: 60_000,
    });
    expect(ids).toContain(first?.taskId);
    expect(first).toMatchObject({ cause: "out-of-memory" });
    expect(first?.sentence).toContain("killed for its memory");
    // Its own memory would have said the opposite.
    const [, share] = /memory: .* \((\d+) %\)/.exec(first?.evidence.join("\n") ?? "") ?? [];
    expect(Number(share)).toBeLessThan(80);
    expect(first?.evidence.join("\n")).toMatch(/its cgroup: \d+ of 500 MiB/);
    await worker.kill();
  },
);

test.skipIf(without !== undefined)(
  `a task in a runner that the kernel kills because another task grows is never convicted${without ? ` [${without}]` : ""}`,
  async () => {
    const { everbeat, url, crashesOf, expectSound } = await openCrashDatabase();
    const tasks: RunnerTask[] = [
      { handler: "holdMemory", runIn: "process", onCrash: "requeue" },
      { handler: "growUntilGone", runIn: "process", onCrash: "requeue" },
    ];
    // What a task has held goes with its runner.
    const work = { concurrency: 2, runners: { processes: 2, recycleAfter: 1 } };
    const worker = await startRunnerWorker({ url, tasks, work });
    const cgroup = memoryCgroup(450 * 1_048_576);
    cgroup.add(worker.pid);
    cgroup.add((await worker.heard({ event: "runner.started" })).pid as number);
    const until = join(mkdtempSync(join(tmpdir(), "everbeat-hold-")), "over");
    onTestFinished(() => rmSync(dirname(until), { recursive: true }));
    const steady = await everbeat.enqueue(task("holdMemory"), { megabytes: 250, until });
    for (let attempt = 1; attempt <= 4; attempt++) {
      const { pid } = await worker.heard({ said: "begun", taskId: steady, attempt });
      const grown = await everbeat.enqueue(task("growUntilGone"), { megabytes: 240, pid });
      expect(await worker.heard({ event: "runner.ended", pid: pid as number })).toMatchObject({ signal: "SIGKILL" });
      // Where the kernel has taken both, this one waits for as long as the other suspect runs, which is until the end of this test.
      await everbeat.tasks.cancel([grown]);
      expect(await everbeat.tasks.show(steady)).toMatchObject({ endedAt: null, crashes: 0 });
    }
    writeFileSync(until, "");
    expect(await everbeat.result(steady, { timeout: 60_000 })).toBe(250 * 1_048_576);
    expect(await crashesOf(steady)).toBe(0);
    for (const { sentence, evidence } of await everbeat.recovery.postMortems({ of: steady })) {
      expect(sentence).toContain("takes the largest, which need not be the one that grew");
      expect(evidence.join("\n")).toMatch(/beside it, its worker ran \d+ other tasks? within the same limit/);
      expect(evidence).toContain("nobody is charged with its end: each of these tasks is a suspect");
    }
    await worker.kill();
    await expectSound();
  },
);

test("a runner killed by somebody else ends its attempt at once, without waiting for silence", async () => {
  const { everbeat, url, expectSound } = await openCrashDatabase();
  const worker = await startRunnerWorker({ url, tasks: [{ handler: "never", runIn: "process" }] });
  const id = await everbeat.enqueue(task("never"), {});
  const { pid } = await worker.heard({ said: "begun", taskId: id });
  const killedAt = performance.now();
  process.kill(pid as number, "SIGKILL");
  await expect(everbeat.result(id, { timeout: 30_000 })).rejects.toMatchObject({
    error: { because: "runner-ended", runner: { signal: "SIGKILL" } },
  });
  // By silence it would have been fifteen seconds.
  expect(performance.now() - killedAt).toBeLessThan(10_000);
  await expectSound();
});
