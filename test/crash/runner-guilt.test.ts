/** Who is blamed for the end of a runner: the task that was alone in a fresh one. Of several, nobody before it is proved. */
import { describe, expect, test, vi } from "vitest";
import { type CrashDatabase, openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { type RunnerTask, type RunnerWorker, startRunnerWorker, task } from "../support/runner-worker.ts";

vi.setConfig({ testTimeout: 120_000 });

const AGAIN = { onCrash: "requeue", retry: { backoff: "fixed", delay: 10 } } as const;
const KINDS = ["process", "thread"] as const;

async function untilEnded({ everbeat }: CrashDatabase, ids: readonly string[]) {
  return eventually(() => Promise.all(ids.map((id) => everbeat.tasks.show(id))), {
    until: (all) => all.every(({ endedAt }) => endedAt !== null),
    ...{ within: 90_000, every: 100, what: "the end of all tasks" },
  });
}

const suspects = async ({ query }: CrashDatabase, ids: readonly string[]) => {
  const rows = await query<{ id: string }>(
    "select distinct task_id::text as id from everbeat.suspicion where task_id = any ($1)",
    [ids],
  );
  return rows.map(({ id }) => id);
};

const firstEvidenceOn = async ({ everbeat }: CrashDatabase, of: string) => {
  const found = await eventually(() => everbeat.recovery.postMortems({ of }), { until: ({ length }) => length > 0 });
  return found.at(-1)?.evidence ?? [];
};

/** The runner of an attempt: its process and its thread. */
const whereRan = (worker: RunnerWorker, taskId: string, attempt: number) =>
  worker.heard({ said: "begun", taskId, attempt }).then(({ pid, threadId }) => ({ pid, threadId }));

const SUSPECTED = "nobody is charged with its end: each of these tasks is a suspect";

describe.each(KINDS)("a batch in a %s", (runIn) => {
  test("with one item that ends it: that item is in quarantine, and the others complete uncharged", async () => {
    const database = await openCrashDatabase();
    const { everbeat, url } = database;
    const ids = await everbeat.enqueueMany(
      task("crowd"),
      Array.from({ length: 10 }, (_, index) => ({ isPoison: index === 4 })),
    );
    const poison = ids[4] as string;
    const innocent = ids.filter((id) => id !== poison);
    await startRunnerWorker({ url, tasks: [{ handler: "crowd", batchSize: 10, runIn, ...AGAIN }] });
    const shown = await untilEnded(database, ids);
    expect(shown.filter(({ state }) => state === "failed").map(({ id }) => id)).toEqual([poison]);
    expect(await everbeat.tasks.show(poison)).toMatchObject({ attempt: 3, crashes: 3, error: { code: "POISONED" } });
    for (const { id, attempt } of shown) {
      if (id === poison) continue;
      expect(attempt).toBe(2);
      expect(await everbeat.result(id)).toBe(1);
      expect(await database.crashesOf(id)).toBe(0);
      const evidence = await firstEvidenceOn(database, id);
      expect(evidence).toContain("it was running 10 tasks");
      expect(evidence).toContain(SUSPECTED);
    }
    // The conviction has cleared them.
    expect(await suspects(database, innocent)).toEqual([]);
    expect((await everbeat.recovery.quarantine.list()).map(({ id, crashes }) => [id, crashes])).toEqual([[poison, 3]]);
    await database.expectSound();
  });

  test('that may not be repeated fails as a whole, and nobody in it is charged (onCrash: "fail")', async () => {
    const database = await openCrashDatabase();
    const { everbeat, url } = database;
    const ids = await everbeat.enqueueMany(task("crowd"), [{ isPoison: true }, {}, {}]);
    await startRunnerWorker({ url, tasks: [{ handler: "crowd", batchSize: 10, runIn }] });
    for (const shown of await untilEnded(database, ids))
      expect(shown).toMatchObject({ state: "failed", crashes: 0, error: { code: "WORKER_CRASHED" } });
    expect(await suspects(database, ids)).toEqual([]);
  });
});

describe.each(KINDS)("a %s that was used before", (runIn) => {
  const tasks: readonly RunnerTask[] = [
    { handler: "leaveTimer", runIn, onCrash: "requeue", retry: { attempts: 2, backoff: "fixed", delay: "1h" } },
    { handler: "meet", runIn, ...AGAIN, crashBudget: 1 },
    { handler: "wait", runIn, ...AGAIN },
    { handler: "look", runIn, ...AGAIN },
    { handler: "die", runIn, ...AGAIN },
  ];
  const work = { concurrency: 1, runners: { processes: 1, threads: 1 } } as const;

  test("and ends by what an earlier task has left behind casts suspicion, and convicts nobody", async () => {
    const database = await openCrashDatabase();
    const { everbeat, url } = database;
    const worker = await startRunnerWorker({ url, tasks, work });
    const guilty = await everbeat.enqueue(task("leaveTimer"), {});
    await everbeat.result(guilty, { timeout: 30_000 });
    const id = await everbeat.enqueue(task("meet"), {});
    const [shown] = await untilEnded(database, [id]);
    expect(shown).toMatchObject({ state: "completed", crashes: 0, attempt: 2 });
    expect(shown?.attempts.map(({ outcome }) => outcome)).toEqual(["crashed", "completed"]);
    const evidence = await firstEvidenceOn(database, id);
    expect(evidence).toContain("it had run 1 task before, which may have left something behind; the last:");
    expect(evidence).toContain(`    leaveTimer ${guilty}`);
    expect(evidence).toContain(SUSPECTED);
    expect(await suspects(database, [guilty, id])).toEqual([id]);
    // The suspect's second runner was fresh, and nobody has it after the suspect.
    await worker.heard({ event: "runner.ended", because: "recycled" });
    await database.expectSound();
  });

  test("makes a suspect of an earlier task that is tried again, however many came between, which then harms nobody", async () => {
    const database = await openCrashDatabase();
    const { everbeat, url } = database;
    const worker = await startRunnerWorker({ url, tasks, work });
    const guilty = await everbeat.enqueue(task("leaveTimer"), { fails: true });
    await eventually(() => everbeat.tasks.show(guilty), { until: ({ failures }) => failures === 1 });
    const between = await everbeat.enqueueMany(
      task("look"),
      Array.from({ length: 120 }, () => ({})),
    );
    await untilEnded(database, between);
    const id = await everbeat.enqueue(task("meet"), {});
    await eventually(() => suspects(database, [guilty, id]), { until: ({ length }) => length === 2 });
    expect((await everbeat.recovery.explain(guilty)).evidence.join("\n")).toContain("suspected of 1 crash");
    await database.query("update everbeat.ready set run_at = now() where task_id = $1", [guilty]);
    expect((await untilEnded(database, [guilty, id])).map(({ state, crashes }) => [state, crashes])).toEqual([
      ["completed", 0],
      ["completed", 0],
    ]);
    // Its second try leaves a timer too, in a runner that nobody has after it.
    const next = await everbeat.enqueue(task("meet"), {});
    expect((await untilEnded(database, [next]))[0]).toMatchObject({ state: "completed", attempt: 1 });
    const exits = worker.messages.filter(({ event, because }) => event === "runner.ended" && because === "exited");
    expect(exits).toHaveLength(1);
  });

  test("makes a suspect of an earlier task also where the task that it ended with is not tried again", async () => {
    const database = await openCrashDatabase();
    const { everbeat, url } = database;
    const ended = { handler: "meet", runIn, onCrash: "fail" } as const;
    await startRunnerWorker({ url, tasks: [tasks[0] as RunnerTask, ended], work });
    const guilty = await everbeat.enqueue(task("leaveTimer"), { fails: true });
    await eventually(() => everbeat.tasks.show(guilty), { until: ({ failures }) => failures === 1 });
    const id = await everbeat.enqueue(task("meet"), {});
    const [shown] = await untilEnded(database, [id]);
    expect(shown).toMatchObject({ state: "failed", crashes: 0, error: { code: "WORKER_CRASHED" } });
    expect(await suspects(database, [guilty, id])).toEqual([guilty]);
    expect((await everbeat.recovery.explain(guilty)).evidence.join("\n")).toContain("suspected of 1 crash");
    await database.expectSound();
  });

  test("and ended by the task in it: that task is convicted after as many ends as its budget", async () => {
    const database = await openCrashDatabase();
    const { everbeat, url } = database;
    await startRunnerWorker({ url, tasks, work });
    await everbeat.result(await everbeat.enqueue(task("look"), {}), { timeout: 30_000 });
    const id = await everbeat.enqueue(task("die"), { how: "exit" });
    const [shown] = await untilEnded(database, [id]);
    expect(shown).toMatchObject({ state: "failed", attempt: 3, crashes: 3, error: { code: "POISONED" } });
    expect(shown?.attempts.map(({ outcome }) => outcome)).toEqual(["crashed", "crashed", "failed"]);
  });

  test("makes room for the fresh one that a suspect needs, while others are at work", async () => {
    const database = await openCrashDatabase();
    const { everbeat, url } = database;
    const worker = await startRunnerWorker({ url, tasks, work: { concurrency: 4, runners: work.runners } });
    // Its second try is first in line, too.
    const id = await everbeat.enqueue(task("die"), { how: "exit", once: true }, { priority: -1 });
    await worker.heard({ said: "begun", taskId: id, attempt: 1 });
    const others = await everbeat.enqueueMany(
      task("wait"),
      Array.from({ length: 40 }, () => ({ ms: 100 })),
    );
    const [suspect, ...all] = await untilEnded(database, [id, ...others]);
    expect(suspect).toMatchObject({ state: "completed", attempt: 2 });
    for (const { state } of all) expect(state).toBe("completed");
    // A job needs a runner of its own, also where others could have been run in the runner that is there.
    const runner = await whereRan(worker, id, 2);
    const ranThere = worker.messages.filter(
      ({ said, pid, threadId }) => said === "begun" && pid === runner.pid && threadId === runner.threadId,
    );
    expect(ranThere.map(({ taskId }) => taskId)).toEqual([id]);
    const isLater = ({ endedAt }: (typeof all)[number]) => (endedAt ?? 0) > (suspect?.endedAt ?? 0);
    expect(all.filter(isLater).length).toBeGreaterThan(0);
  });
});
