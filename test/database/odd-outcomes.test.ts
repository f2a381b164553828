/** Whatever a handler returns, throws, reports or logs is a matter of its own task: those beside it end as they should. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { refuse } from "../support/refusing.ts";
import { gate, unique, workingOn } from "../support/working.ts";

const { everbeat, database } = await openTestEverbeat();
const { working, disposable } = workingOn(everbeat);

const nested = (depth: number) => JSON.parse(`${"[".repeat(depth)}${"]".repeat(depth)}`) as unknown;
const odd = fc.oneof(
  { weight: 5, arbitrary: fc.anything({ withBigInt: true, withDate: true, withMap: true, withTypedArray: true }) },
  fc.constantFrom<unknown>(
    "a\0b",
    "\ud83d",
    "\ude00",
    { "\0": "\0" },
    { __proto__: null, a: "\ud800" },
    -0,
    5e-324,
    Number.MAX_VALUE,
  ),
  fc.constantFrom<unknown>(nested(500), nested(20_000), "x".repeat(2_000_000), Symbol("s"), () => 1, 10n ** 400n),
  fc.constantFrom<unknown>(
    new Proxy(
      {},
      {
        get: () => {
          throw new Error("no");
        },
      },
    ),
    { toJSON: () => undefined },
  ),
);
const deeds = fc.record({ does: fc.constantFrom("returns", "throws", "reports", "logs", "snoozes"), value: odd });

test("all of it at once, beside tasks that only want to complete", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(deeds, { minLength: 40, maxLength: 40 }), async (all) => {
      const plain = defineTask({ name: unique("plain"), run: async (input: number) => input });
      const strange = defineTask({
        name: unique("strange"),
        async run(index: number, { phase, progress, log, snooze, task }) {
          const deed = all[index];
          const value = deed?.value as never;
          if (deed?.does === "throws") throw value;
          if (deed?.does === "logs") log.info(value, value);
          if (deed?.does === "snoozes" && task.attempt === 1) {
            try {
              snooze(value);
            } catch (error) {
              // For ever is not what is tried here.
              if ((error as { delayMs?: number }).delayMs === undefined || (error as { delayMs: number }).delayMs < 1)
                throw error;
            }
          }
          if (deed?.does === "reports") {
            progress(value, value);
            await phase(String(index), value);
          }
          return deed?.does === "returns" ? value : null;
        },
      });
      const good = await everbeat.enqueueMany(plain, [...Array(40).keys()]);
      const bad = await everbeat.enqueueMany(strange, [...all.keys()]);
      await using _ = await disposable(working([plain, strange], { concurrency: 100 }));
      const results = await Promise.all(good.map((id) => everbeat.result(id, { timeout: 20_000 })));
      expect(results).toEqual([...Array(40).keys()]);
      await Promise.all(bad.map((id) => everbeat.result(id, { timeout: 20_000 }).catch(() => {})));
      const shown = await Promise.all([...good, ...bad].map((id) => everbeat.tasks.show(id)));
      expect(shown.slice(0, 40).map(({ attempt }) => attempt)).toEqual(Array(40).fill(1));
      for (const { state, error } of shown) {
        expect(["completed", "failed"]).toContain(state);
        if (state === "failed") expect(error).toMatchObject({ code: expect.any(String), message: expect.any(String) });
      }
    }),
    { numRuns: 4 },
  );
}, 60_000);

test.each([
  { given: 120.375, ms: 120 },
  { given: "1.005s", ms: 1_005 },
  { given: "1.0005s", ms: 1_001 },
  { given: 0.4, ms: 0 },
] as const)("a task that asks for $given is pending again for $ms ms, whole ones", async ({ given, ms }) => {
  const queue = unique("held");
  const [begun, mayGoOn] = [gate(), gate()];
  const task = defineTask({
    name: unique("fraction"),
    queue,
    retry: { attempts: 2, delay: given, jitter: 0 },
    async run(does: "snoozes" | "throws", { task: { attempt }, snooze }) {
      if (attempt > 1) return attempt;
      begun.open();
      await mayGoOn.opened;
      return does === "snoozes" ? snooze(given) : Promise.reject(new Error("again"));
    },
  });
  const ids = await everbeat.enqueueMany(task, ["snoozes", "throws"]);
  await using _ = await disposable(working([task], { concurrency: 2 }));
  await begun.opened;
  // So that nobody takes them before they have been looked at.
  await everbeat.queues.pause(queue);
  mayGoOn.open();
  const waiting = await eventually(async () => {
    const rows = await database.query(
      `select a.outcome, (extract(epoch from r.run_at - a.ended_at) * 1000)::float8 as ms
       from everbeat.ready r join everbeat.attempt a using (task_id) where task_id = any ($1) order by 1`,
      [ids],
    );
    return rows.length === 2 && rows;
  });
  expect(waiting).toEqual([
    { outcome: "failed", ms },
    { outcome: "snoozed", ms },
  ]);
  await everbeat.queues.resume(queue);
  expect(await Promise.all(ids.map((id) => everbeat.result(id, { timeout: 20_000 })))).toEqual([2, 2]);
});

test("a report that cannot be written is left out, and those of the others are written", async () => {
  const task = defineTask({
    name: unique("reporting"),
    async run(_input: number, { phase }) {
      await phase("said");
    },
  });
  const ids = await everbeat.enqueueMany(task, [0, 1, 2, 3, 4]);
  await refuse(database, "progress", `new.task_id = '${ids[2]}'`);
  await using _ = await disposable(working([task], { concurrency: 5 }));
  await Promise.all(ids.map((id) => everbeat.result(id, { timeout: 20_000 })));
  const rows = await database.query<{ id: string }>(
    "select task_id::text as id from everbeat.progress where task_id = any ($1) order by 1",
    [ids],
  );
  expect(rows.map(({ id }) => id)).toEqual(ids.filter((_, nth) => nth !== 2).map(String));
});

test("a task that cannot be given back does not keep the others that a leaving worker gives back", async () => {
  const begun = gate();
  const task = defineTask({
    name: unique("waiting"),
    async run(_input: number, { signal }) {
      begun.open();
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
    },
  });
  const ids = await everbeat.enqueueMany(task, [0, 1, 2, 3, 4]);
  const worker = await working([task], { concurrency: 1, prefetch: 4, shutdownGrace: "1s", abortGrace: "1s" });
  await begun.opened;
  const stateOf = async (id: string) => (await everbeat.tasks.show(id)).state;
  await eventually(
    async () => (await Promise.all(ids.map(stateOf))).filter((state) => state === "claimed").length === 4,
  );
  await refuse(database, "ready", `new.task_id = '${ids[2]}'`);
  await worker.stop({ now: true });
  const left = await Promise.all(ids.slice(1).map(stateOf));
  expect(left).toEqual(["pending", "claimed", "pending", "pending"]);
});
