import { describe, expect, test } from "vitest";
import type { TaskContext } from "../../src/task/context.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { gate, unique, workingOn } from "../support/working.ts";

const { everbeat, database } = await openTestEverbeat();
const { working, disposable, record } = workingOn(everbeat);

describe("a worker", () => {
  test("keeps to its concurrency, in all and for each queue", async () => {
    const queues = { [unique("wide")]: {}, [unique("narrow")]: { concurrency: 2 } };
    const [wide, narrow] = Object.keys(queues) as [string, string];
    const now = { [wide]: 0, [narrow]: 0 };
    const most = { all: 0, narrow: 0 };
    const task = defineTask({
      name: unique("counted"),
      run: async (_input: unknown, { task: { queue } }: TaskContext) => {
        now[queue] = (now[queue] ?? 0) + 1;
        most.all = Math.max(most.all, (now[wide] ?? 0) + (now[narrow] ?? 0));
        most.narrow = Math.max(most.narrow, now[narrow] ?? 0);
        await new Promise((resume) => setTimeout(resume, 15));
        now[queue] = (now[queue] ?? 0) - 1;
      },
    });
    const ids = await everbeat.enqueueMany(
      task,
      Array.from({ length: 40 }, (_, n) => n),
      { options: (n) => ({ queue: (n as number) % 2 ? wide : narrow }) },
    );
    await using _worker = await disposable(working([task], { concurrency: 5, queues, prefetch: 10 }));
    await Promise.all(ids.map((id) => everbeat.result(id)));
    expect(most.all).toBe(5);
    expect(most.narrow).toBe(2);
  });

  test("runs a delayed task when it is due, not a poll later", async () => {
    const task = defineTask({ name: unique("delayed"), run: (_input: unknown, _context: TaskContext) => Date.now() });
    await using _worker = await disposable(working([task], { pollInterval: "20s" }));
    const askedAt = Date.now();
    const ranAt = await everbeat.result(await everbeat.enqueue(task, 1, { delay: 400 }));
    expect(ranAt - askedAt).toBeGreaterThanOrEqual(390);
    // The next poll is 20 s away.
    expect(ranAt - askedAt).toBeLessThan(10_000);
  });

  test("claims ahead and starts what it claimed; what it cannot start it gives back", async () => {
    const { opened, open } = gate();
    const task = defineTask({ name: unique("held"), run: () => opened });
    const ids = await everbeat.enqueueMany(task, [undefined, undefined, undefined]);
    // It looks at what it has after six seconds at the soonest: until then that can be seen.
    await using _worker = await disposable(working([task], { concurrency: 1, prefetch: 2, pollInterval: "8s" }));
    await eventually(async () => (await everbeat.tasks.show(ids[2] as string)).state === "claimed");
    // Given back after two seconds or more without a slot; and no sooner taken again than there is one.
    await eventually(async () => (await everbeat.tasks.show(ids[2] as string)).state === "pending", { within: 40_000 });
    open();
    await Promise.all(ids.map((id) => everbeat.result(id)));
    expect((await everbeat.tasks.show(ids[2] as string)).attempts.at(-1)).toMatchObject({
      attempt: 1,
      outcome: "completed",
    });
  });

  test("that stops gives back what it claimed ahead, lets what runs end, and is offline", async () => {
    const { opened, open } = gate();
    const task = defineTask({ name: unique("leaving"), run: () => opened.then(() => "ended in time") });
    const ids = await everbeat.enqueueMany(task, [undefined, undefined]);
    // Only its stop can give back what it has claimed ahead: its own looks at that are too rare.
    const worker = await working([task], { concurrency: 1, prefetch: 1, pollInterval: "1m" });
    await eventually(async () => (await everbeat.tasks.show(ids[1] as string)).state === "claimed");
    const stopped = worker.stop();
    await eventually(async () => (await everbeat.tasks.show(ids[1] as string)).state === "pending");
    expect((await everbeat.replicas()).find((replica) => replica.id === worker.replicaId)?.status).toBe("draining");
    open();
    await stopped;
    expect(await everbeat.tasks.show(ids[0] as string)).toMatchObject({ state: "completed", result: "ended in time" });
    expect(await everbeat.tasks.show(ids[1] as string)).toMatchObject({ state: "pending", attempt: 0 });
    expect((await everbeat.replicas()).find((replica) => replica.id === worker.replicaId)?.status).toBe("offline");
  });

  test("that stops aborts what does not end in time; it is pending again and nothing is spent", async () => {
    const task = defineTask({
      name: unique("cut-short"),
      run: (_input: unknown, { signal }: TaskContext) =>
        new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
    });
    const id = await everbeat.enqueue(task, 1);
    const worker = await working([task], { shutdownGrace: 20 });
    await eventually(async () => (await everbeat.tasks.show(id)).state === "running");
    await worker.stop();
    expect(await everbeat.tasks.show(id)).toMatchObject({
      state: "pending",
      failures: 0,
      attempts: [{ outcome: "aborted", error: { code: "WORKER_STOPPING" } }],
    });
  });

  test("whose task is taken away learns of it: the signal fires, the outcome is refused, an event says so", async () => {
    const lost = record("claim.lost");
    const { opened: told, open: tell } = gate();
    const task = defineTask({
      name: unique("robbed"),
      run: async (_input: unknown, { signal, task: { attempt } }: TaskContext) => {
        if (attempt > 1) return "second";
        await new Promise<void>((resume) => signal.addEventListener("abort", () => resume()));
        tell();
        return "first";
      },
    });
    await using _worker = await disposable(working([task], { pollInterval: "10s" }));
    const id = await everbeat.enqueue(task, 1);
    await eventually(async () => (await everbeat.tasks.show(id)).state === "running");
    await everbeat.tasks.retry(id, { force: true });
    await told;
    expect(await everbeat.result(id)).toBe("second");
    await eventually(async () => (await everbeat.tasks.show(id)).late.length === 1);
    expect(lost).toContainEqual(expect.objectContaining({ taskId: id }));
  });

  test("saves its definitions for those who have not got its code", async () => {
    const task = defineTask({
      name: unique("defined"),
      queue: "somewhere",
      priority: 3,
      onCrash: "retry",
      timeout: "1m",
      run: () => null,
    });
    await using _worker = await disposable(working([task]));
    const [row] = await database.query<{ settings: unknown }>(
      "select settings from everbeat.definition where name = $1",
      [task.name],
    );
    expect(row?.settings).toMatchObject({ queue: "somewhere", priority: 3, onCrash: "retry", timeoutMs: 60_000 });
    expect((await everbeat.replicas()).at(-1)).toMatchObject({
      status: "online",
      tasks: [task.name],
      pid: process.pid,
    });
  });

  test("survives a listener of its events that throws", async () => {
    const off = everbeat.on("task.started", () => {
      throw new Error("bad listener");
    });
    const task = defineTask({ name: unique("listened"), run: () => "fine" });
    await using _worker = await disposable(working([task]));
    expect(await everbeat.result(await everbeat.enqueue(task, undefined))).toBe("fine");
    off();
  });
});

test("a copy of a task under another name works, and is on record, under that name", async () => {
  const original = defineTask({ name: unique("original"), run: (_input: null) => "done" });
  const copy = { ...original, name: unique("copy") };
  await working([original, copy]);
  expect(await everbeat.result(await everbeat.enqueue(copy, null))).toBe("done");
  const names = [original.name, copy.name];
  expect(await database.query("select from everbeat.definition where name = any ($1)", [names])).toHaveLength(2);
});
