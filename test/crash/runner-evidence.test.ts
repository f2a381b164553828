/** What somebody who looks can see of runners: where a task runs while it does, and what its runner died of. */
import { expect, test, vi } from "vitest";
import type { Explanation } from "../../src/recovery/explain.ts";
import { everbeat as cli, everbeatJson } from "../cli/run-cli.ts";
import { openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { explanationText } from "../support/explanation-text.ts";
import { type RunnerTask, startRunnerWorker, task } from "../support/runner-worker.ts";
import { startSupervisor, task as supervised } from "../support/supervisor.ts";

vi.setConfig({ testTimeout: 120_000 });

/** What differs from run to run is left out. */
function textOf(explanation: Explanation): string {
  return explanationText(explanation)
    .replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "ID")
    .replace(/\b(\d+m )?[\d.]+m?s\b/g, "TIME")
    .replace(/on \S+, process \d+/g, "on HOST, process PID")
    .replace(/this task on \S+ is dead/g, "this task on HOST is dead")
    .replace(/\(process \d+\)|(?<=own )\(\d+\)/g, "(PID)")
    .replace(/under claim \d+/g, "under claim CLAIM");
}

test.each([
  ["process", /a process of its own \(PID\): busy/, /^runs in +process \d+ of its own, busy$/m],
  ["thread", /a thread of its own: busy/, /^runs in +a thread of its own, busy$/m],
] as const)("a task that runs in a %s is shown with it", async (kind, explained, shown) => {
  const { everbeat, url } = await openCrashDatabase();
  const worker = await startRunnerWorker({ url, tasks: [{ handler: "obey", runIn: kind }] });
  const id = await everbeat.enqueue(task("obey"), {});
  const { pid } = await worker.heard({ said: "begun", taskId: id });
  const details = await eventually(() => everbeat.tasks.show(id), {
    until: ({ runner }) => runner?.status === "busy",
    what: "the runner to be on record",
  });
  expect(details.runner).toMatchObject({ kind, pid });
  expect((await cli(["tasks", "show", id], { database: url })).stdout).toMatch(shown);
  expect(textOf(await everbeat.recovery.explain(id))).toMatch(explained);
  expect((await cli(["explain", id], { database: url })).stdout).toContain("of its own");
  const { stdout } = await cli(["replicas"], { database: url });
  expect(stdout).toContain("RUNNERS");
  expect(stdout).toContain(kind === "process" ? `process ${pid} busy` : "thread busy");
  const { answer } = await everbeatJson<{ replicas: { id: string; runners: unknown[] }[] }>(["replicas"], {
    database: url,
  });
  expect(answer.replicas).toMatchObject([{ id: worker.replicaId, runners: [{ kind, pid, status: "busy" }] }]);
  await everbeat.tasks.cancel(id);
  await expect(everbeat.result(id, { timeout: 30_000 })).rejects.toMatchObject({ state: "cancelled" });
  expect((await everbeat.tasks.show(id)).runner).toBeNull();
});

test("a runner out of memory leaves a post-mortem that says so, with the evidence, and explain says it too", async () => {
  const { everbeat, url } = await openCrashDatabase();
  const work = { runners: { processes: 1, heapLimit: "48MB" } } as const;
  const worker = await startRunnerWorker({ url, tasks: [{ handler: "die", runIn: "process" }], work });
  const id = await everbeat.enqueue(task("die"), { how: "memory", phase: "eating" });
  await expect(everbeat.result(id, { timeout: 30_000 })).rejects.toMatchObject({ code: "WORKER_CRASHED" });
  const [postMortem] = await eventually(() => everbeat.recovery.postMortems({ of: id }), {
    until: (found) => found.length > 0,
  });
  expect(postMortem).toMatchObject({
    ...{ kind: "runner", cause: "heap-out-of-memory", taskId: id, replicaId: worker.replicaId, name: "die" },
    sentence: "The process ran out of JavaScript heap, of which it may have 48 MiB, and V8 aborted it.",
  });
  const evidence = postMortem?.evidence.join("\n") ?? "";
  expect(evidence).toContain("its process was ended by SIGABRT");
  expect(evidence).toMatch(/^memory: \d+ of \d+ MiB \(\d+ %\) at its last beat/m);
  expect(evidence).toMatch(/^heap: \d+ of 48 MiB at its last beat$/m);
  expect(evidence).toMatch(/^last phase: eating$/m);
  expect(evidence).toMatch(/last lines of the task's log:\n {4}info begun/);
  expect(evidence).toMatch(/last lines of standard error:\n(.*\n)*? {4}FATAL ERROR: .*heap out of memory/);
  expect(textOf(await everbeat.recovery.explain(id))).toMatchInlineSnapshot(`
    "[failed] It failed TIME ago because its runner died while running it. The process ran out of JavaScript heap, of which it may have 48 MiB, and V8 aborted it. The task may have had part of its effects.
      · 1 attempt, 0 failures, 1 crash
      · its last attempt, under claim CLAIM, took TIME
      · its last phase was "eating", TIME ago
      · WORKER_CRASHED: The process that ran this task on HOST is dead: its runner (PID) was ended by SIGABRT.
    Next: Nothing, until somebody has looked at what it left behind.
      → Take it off the list of tasks to review, if nothing is left to do.
        $ everbeat tasks review ID --done
      → Run it again, if it can be repeated.
        $ everbeat tasks retry ID"
  `);
});

test("a thread out of memory is told apart from its process, which lives on", async () => {
  const { everbeat, url } = await openCrashDatabase();
  const work = { runners: { threads: 1, heapLimit: "48MB" } } as const;
  const worker = await startRunnerWorker({ url, tasks: [{ handler: "die", runIn: "thread" }], work });
  const id = await everbeat.enqueue(task("die"), { how: "memory" });
  await expect(everbeat.result(id, { timeout: 30_000 })).rejects.toMatchObject({ code: "WORKER_CRASHED" });
  const [postMortem] = await eventually(() => everbeat.recovery.postMortems({ of: id }), {
    until: (found) => found.length > 0,
  });
  expect(postMortem).toMatchObject({
    ...{ kind: "runner", cause: "heap-out-of-memory", replicaId: worker.replicaId },
    sentence: "The thread ran out of JavaScript heap, of which it may have 48 MiB, and V8 ended it.",
  });
  expect(postMortem?.evidence[0]).toBe("its thread ended with exit code 1");
  expect((await everbeat.replicas()).map(({ status }) => status)).toEqual(["online"]);
});

test("what a thread holds outside of its heap is not told as a part of its heap", async () => {
  const { everbeat, url } = await openCrashDatabase();
  const tasks = ["grow", "wait", "die"].map((handler): RunnerTask => ({ handler, runIn: "thread" }));
  await startRunnerWorker({ url, tasks, work: { runners: { threads: 1, heapLimit: "128MB" } } });
  await everbeat.result(await everbeat.enqueue(task("grow"), { megabytes: 200 }), { timeout: 30_000 });
  // For some beats.
  await everbeat.result(await everbeat.enqueue(task("wait"), { ms: 1_500 }), { timeout: 30_000 });
  const id = await everbeat.enqueue(task("die"), { how: "exit" });
  await expect(everbeat.result(id, { timeout: 30_000 })).rejects.toMatchObject({ code: "WORKER_CRASHED" });
  const [postMortem] = await eventually(() => everbeat.recovery.postMortems({ of: id }), {
    until: (found) => found.length > 0,
  });
  const [, used] = postMortem?.evidence.join("\n").match(/^heap: (\d+) of 128 MiB at its last beat$/m) ?? [];
  expect(Number(used)).toBeLessThan(128);
});

test("a supervised replica that ends leaves a post-mortem with its exit code, and so does the attempt it had", async () => {
  const { everbeat, url } = await openCrashDatabase();
  const supervisor = await startSupervisor({ url, processes: 1 });
  await supervisor.said({ event: "child.ready" });
  const id = await everbeat.enqueue(supervised("die"), { code: 3 });
  await expect(everbeat.result(id, { timeout: 60_000 })).rejects.toMatchObject({ code: "WORKER_CRASHED" });
  const found = await eventually(() => everbeat.recovery.postMortems({}), { until: (rows) => rows.length === 2 });
  for (const kind of ["replica", "attempt"])
    expect(found).toContainEqual(
      expect.objectContaining({
        ...{ kind, cause: "exited" },
        sentence: "The process ended itself with exit code 3, as by process.exit(3).",
        evidence: expect.arrayContaining(["its process ended with exit code 3"]),
      }),
    );
  expect(textOf(await everbeat.recovery.explain(id))).toMatchInlineSnapshot(`
    "[failed] It failed TIME ago because its worker died while running it. The process ended itself with exit code 3, as by process.exit(3). The task may have had part of its effects.
      · 1 attempt, 0 failures, 1 crash
      · its last attempt, under claim CLAIM, took TIME
      · WORKER_CRASHED: The worker that ran this task on HOST is dead: its process exited with code 3.
    Next: Nothing, until somebody has looked at what it left behind.
      → Take it off the list of tasks to review, if nothing is left to do.
        $ everbeat tasks review ID --done
      → Run it again, if it can be repeated.
        $ everbeat tasks retry ID"
  `);
});

test("a supervised replica that is killed leaves one with the signal, and memory against its limit", async () => {
  const { everbeat, url } = await openCrashDatabase();
  const supervisor = await startSupervisor({ url, processes: 1 });
  const { pid, replicaId } = await supervisor.said({ event: "child.ready" });
  const id = await everbeat.enqueue(supervised("hold"), {});
  await eventually(async () => (await everbeat.tasks.show(id)).state === "running");
  process.kill(pid as number, "SIGKILL");
  const found = await eventually(() => everbeat.recovery.postMortems({}), { until: (rows) => rows.length === 2 });
  const evidence = expect.arrayContaining([
    "its process was ended by SIGKILL",
    expect.stringMatching(/^memory: \d+ of \d+ MiB/),
    "it was running 1 task",
  ]);
  expect(found).toContainEqual(expect.objectContaining({ kind: "replica", cause: "killed", replicaId, evidence }));
  expect(found).toContainEqual(expect.objectContaining({ kind: "attempt", cause: "killed", taskId: id, evidence }));
  await eventually(async () => (await everbeat.tasks.show(id)).attempt === 2, { within: 30_000 });
  expect((await everbeat.tasks.show(id)).attempts[0]?.postMortem).toMatch(
    /^The process was killed \(SIGKILL\).*: by an operator, a supervisor, the kernel or its own code\./,
  );
});
