/** Where every claim fails whatever it takes, no task is to blame: all of them stay, an alert tells of it, and it ends by itself. */
import { randomUUID } from "node:crypto";
import { describe, expect, onTestFinished, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { holding } from "../support/crash-database.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { refuse } from "../support/refusing.ts";

const { everbeat, database } = await openTestEverbeat();

function scene() {
  const id = randomUUID();
  const [name, queue, other] = [`n-${id}`, `q-${id}`, `o-${id}`];
  const done = new Set<unknown>();
  const task = defineTask({ name, run: (input: unknown) => void done.add(input) });
  const another = defineTask({ name: `a-${id}`, run: (input: unknown) => void done.add(input) });
  const failing: string[] = [];
  onTestFinished(everbeat.on("claims.failing", (event) => failing.push(event.queue)));
  return {
    ...{ name, queue, other, done, another, failing },
    put: (inputs: readonly unknown[], options: object = {}, of = task) =>
      everbeat.enqueueMany(of, inputs, { options: { queue, ...options } }),
    async work(queues = [queue, other]) {
      const worker = await everbeat.work([task, another], { queues, handleSignals: false, concurrency: 10 });
      onTestFinished(() => worker.stop({ now: true }));
      return worker;
    },
    failed: () =>
      database.query(
        "select from everbeat.ended e join everbeat.task t on t.id = e.task_id where e.state = 'failed' and t.name = $1",
        [name],
      ),
  };
}

const inputsOf = (kind: string, count: number) => Array.from({ length: count }, (_, n) => `${kind} ${n}`);
const isOpen = async (kind: string, subject: string) =>
  (
    await database.query<{ message: string }>(
      "select message from everbeat.alert where kind = $1 and subject = $2 and resolved_at is null",
      [kind, subject],
    )
  )[0]?.message ?? "none";
const toBe = (words: string) => ({ until: (message: string) => message.includes(words), within: 30_000 });
const until = (done: Set<unknown>, inputs: readonly unknown[]) =>
  eventually(() => inputs.filter((input) => !done.has(input)), {
    until: (missing) => missing.length === 0,
    within: 30_000,
    what: "all of them to be done",
  });

test.each([1, 300])(
  "of %i tasks none fails while no claim goes through, and all are run after that",
  async (count) => {
    const { queue, put, done, work, failed, failing } = scene();
    const { allow } = await refuse(database, "running", `new.queue = '${queue}'`);
    await put(inputsOf("task", count));
    await work();
    await eventually(() => isOpen("claims-failing", queue), toBe("this row is not to be written (P0001)"));
    await eventually(() => failing, { until: (queues) => queues.length > 0 });
    expect(failing).toEqual([queue]);
    expect(await failed()).toEqual([]);
    await allow();
    await until(done, inputsOf("task", count));
    await eventually(() => isOpen("claims-failing", queue), toBe("none"));
  },
  60_000,
);

test("where only one queue is concerned it is paused, and the others are claimed", async () => {
  const { queue, other, put, done, work, failed } = scene();
  const { allow } = await refuse(database, "running", `new.queue = '${queue}'`);
  await put(inputsOf("task", 300));
  await work();
  await eventually(() => isOpen("claims-failing", queue), toBe("this row is not to be written (P0001)"));
  await put(inputsOf("innocent", 20), { queue: other });
  await until(done, inputsOf("innocent", 20));
  await eventually(() => isOpen("queue-not-usable", queue), toBe("this row is not to be written (P0001)"));
  await eventually(() => isOpen("claims-failing", queue), toBe("none"));
  expect(done.size).toBe(20);
  await allow();
  await everbeat.queues.resume(queue);
  await until(done, inputsOf("task", 300));
  expect(await failed()).toEqual([]);
}, 60_000);

test("many that are refused among others are put off, not failed", async () => {
  const { name, put, another, done, work, failed } = scene();
  const { allow } = await refuse(database, "running", `new.name = '${name}'`);
  for (let n = 0; n < 10; n++) {
    await put([`task ${n}`]);
    await put([`innocent ${n}`], {}, another);
  }
  await work();
  await until(done, inputsOf("innocent", 10));
  expect(await isOpen("not-claimable", name)).toMatch(/was put off for five minutes/);
  expect(await failed()).toEqual([]);
  await allow();
  const later = "update everbeat.ready set run_at = now() where name = $1";
  await database.query(later, [name]);
  await until(done, inputsOf("task", 10));
}, 60_000);

test("few that are refused are set aside once others can be claimed, be it from another queue", async () => {
  const { name, other, queue, put, done, work } = scene();
  await refuse(database, "running", `new.queue = '${queue}'`);
  const [id] = await put(["bad"]);
  await work();
  await eventually(() => isOpen("claims-failing", queue), toBe("this row is not to be written (P0001)"));
  await put(["innocent"], { queue: other });
  await until(done, ["innocent"]);
  await eventually(async () => (await everbeat.tasks.show(id as string)).state, {
    until: (state) => state === "failed",
  });
  expect(await isOpen("not-claimable", name)).toMatch(/was set aside/);
}, 60_000);

test("many queues that fail each for a row of its own do not keep a worker from the others", async () => {
  const { other, queue, put, done, work, failed } = scene();
  const bad = Array.from({ length: 7 }, (_, n) => `${queue}-${n}`);
  await refuse(database, "running", `new.queue like '${queue}-%'`);
  for (const one of bad) await put(["bad"], { queue: one });
  await put(inputsOf("innocent", 20), { queue: other });
  await work([...bad, other]);
  await until(done, inputsOf("innocent", 20));
  await eventually(failed, { until: (rows) => rows.length === bad.length, what: "the bad tasks to be set aside" });
  expect(done.size).toBe(20);
}, 60_000);

describe("an alert whose worker was killed", () => {
  const raise = (queue: string) =>
    database.query("select everbeat.raise_alert('claims-failing', $1, 'left behind', null)", [queue]);

  test("ends when another claims from that queue, not when it claims from others", async () => {
    const { queue, other, put, done, work } = scene();
    await raise(queue);
    await work();
    for (const input of inputsOf("elsewhere", 5)) {
      await put([input], { queue: other });
      await until(done, [input]);
    }
    expect(await isOpen("claims-failing", queue)).toBe("left behind");
    await put(["task"]);
    await until(done, ["task"]);
    await eventually(() => isOpen("claims-failing", queue), toBe("none"));
  }, 60_000);

  test("ends also where the first task that another claims is the only one", async () => {
    const { queue, put, done, work } = scene();
    await raise(queue);
    await put(["task"]);
    await work();
    await until(done, ["task"]);
    await eventually(() => isOpen("claims-failing", queue), { ...toBe("none"), within: 10_000 });
  }, 60_000);

  test("ends when another, whose claims failed too and which was working all along, claims again", async () => {
    const { queue, put, done, work, failing } = scene();
    await put(["first"]);
    await work();
    await until(done, ["first"]);
    // The other is at finding out what is wrong, so this one is not told which queue it is.
    await holding(database.url, "select pg_advisory_xact_lock(everbeat.gate_lock_id('service', 'set-aside'))");
    const refused: string[] = [];
    onTestFinished(everbeat.on("database.refused", ({ reason }) => refused.push(reason)));
    const { allow } = await refuse(database, "running", `new.queue = '${queue}'`);
    await raise(queue);
    await put(["task"]);
    await eventually(() => refused, { until: (all) => all.length > 0 });
    await allow();
    await until(done, ["task"]);
    await eventually(() => isOpen("claims-failing", queue), { ...toBe("none"), within: 10_000 });
    expect(failing).toEqual([]);
  }, 60_000);
});

test("a worker that cannot find out what makes its claims fail goes on when they do not any more", async () => {
  const { queue, put, done, work } = scene();
  const { allow } = await refuse(database, "running", `new.queue = '${queue}'`);
  await database.query("alter function everbeat.set_aside_bad rename to set_aside_bad_elsewhere");
  onTestFinished(async () => {
    await database.query("alter function everbeat.set_aside_bad_elsewhere rename to set_aside_bad");
  });
  const refused: string[] = [];
  onTestFinished(everbeat.on("database.refused", ({ reason }) => refused.push(reason)));
  await put(inputsOf("task", 20));
  await work();
  await eventually(() => refused, { until: (all) => all.some((reason) => reason.includes("set_aside_bad")) });
  await allow();
  await until(done, inputsOf("task", 20));
}, 60_000);
