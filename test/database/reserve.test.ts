/** What waits in hand for a slot: on record as running, and nothing else than pending to whoever asks what became of it. */
import { describe, expect, onTestFinished, test } from "vitest";
import type { QueueOptions } from "../../src/queue/queue-orders.ts";
import { claimTasks } from "../../src/sql/claims.ts";
import type { TaskContext } from "../../src/task/context.ts";
import { type AnyTask, defineTask, type TaskOptions } from "../../src/task/define-task.ts";
import type { WorkOptions } from "../../src/worker/options.ts";
import { handClaimer, putOnRecord } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { gate, unique, workingOn } from "../support/working.ts";

const { everbeat, database } = await openTestEverbeat();
const { working } = workingOn(everbeat);
const CONCURRENCY = 10;
const TASKS = 20_000;

/** So many short tasks that they take a while, each noted when it begins; from `hold` on they wait for the gate. */
async function scene(
  options: Partial<TaskOptions> = {},
  work: WorkOptions = {},
  { takesMs = 1, limits = {}, hasKeys = false }: { takesMs?: number; limits?: QueueOptions; hasKeys?: boolean } = {},
) {
  const queue = unique("short");
  await everbeat.queues.set(queue, limits);
  const seen = { begun: [] as string[], atOnce: 0, mostAtOnce: 0, held: 0 };
  /** While there is one, whoever begins waits for it to open. */
  let closed: ReturnType<typeof gate> | undefined;
  const short = defineTask({
    ...{ name: unique("short"), queue, onCrash: "requeue", ...options },
    run: async (_input: unknown, { task, signal }: TaskContext) => {
      seen.begun.push(task.id);
      seen.mostAtOnce = Math.max(seen.mostAtOnce, ++seen.atOnce);
      if (closed) {
        seen.held++;
        await Promise.race([closed.opened, new Promise((resume) => signal.addEventListener("abort", resume))]);
        seen.held--;
      } else await new Promise((resume) => setTimeout(resume, takesMs));
      seen.atOnce--;
    },
  });
  for (let left = hasKeys ? TASKS / 10 : TASKS; left > 0; left -= 1_000) {
    const inputs = Array.from({ length: 1_000 }, (_, index) => left - index);
    await everbeat.enqueueMany(short, inputs, hasKeys ? { options: (n) => ({ exclusiveKey: `${queue} ${n}` }) } : {});
  }
  const start = () => working([short], { queues: [queue], concurrency: CONCURRENCY, ...work });
  const owned = async () => {
    const rows = await database.query<{ id: string }>("select task_id as id from everbeat.running where queue = $1", [
      queue,
    ]);
    return rows.map((row) => row.id);
  };
  const close = () => {
    closed = gate();
  };
  const open = () => {
    closed?.open();
    closed = undefined;
  };
  const worker = await start();
  onTestFinished(async () => {
    open();
    await worker.stop({ now: true });
    await database.query("delete from everbeat.ready where queue = $1", [queue]);
  });
  return { queue, close, open, seen, start, worker, owned };
}

/** Every slot is held, and these wait in hand. */
async function untilReserved({ seen, owned, open, close }: Awaited<ReturnType<typeof scene>>): Promise<string[]> {
  const look = async () => {
    close();
    await eventually(() => seen.held === CONCURRENCY, { every: 1, what: "every slot to be held" });
    const waiting = (await owned()).filter((id) => !seen.begun.includes(id));
    if (waiting.length === 0) open();
    return waiting;
  };
  return eventually(look, { until: (waiting) => waiting.length > 0, what: "a reserve" });
}

/** At any moment until then. */
async function mostOwned(owned: () => Promise<string[]>, isEnough: () => boolean): Promise<number> {
  let most = 0;
  const look = async () => {
    most = Math.max(most, (await owned()).length);
    return isEnough();
  };
  await eventually(look, { every: 1, within: 60_000, what: "enough tasks to have begun" });
  return most;
}

async function expectUntouched(ids: readonly string[]) {
  const rows = await database.query(
    "select distinct attempt, failures, crashes from everbeat.tasks where id = any ($1)",
    [ids],
  );
  expect(rows).toEqual([{ attempt: 0, failures: 0, crashes: 0 }]);
  expect(await database.query("select from everbeat.attempt where task_id = any ($1)", [ids])).toEqual([]);
}

describe("short tasks that may be repeated", () => {
  test("are taken ahead, begun once each, and never more of them at once than there are slots", async () => {
    const { seen, owned, worker, queue } = await scene();
    await eventually(owned, { until: (own) => own.length > 2 * CONCURRENCY, every: 1, what: "a reserve" });
    await eventually(() => seen.begun.length > 1_000, { what: "a thousand that have begun" });
    await worker.stop();
    expect(seen.mostAtOnce).toBe(CONCURRENCY);
    expect(new Set(seen.begun).size).toBe(seen.begun.length);
    expect(await owned()).toEqual([]);
    const [left] = await database.query<{ n: number }>(
      "select count(*)::int as n from everbeat.ready where queue = $1",
      [queue],
    );
    expect(left?.n).toBe(TASKS - seen.begun.length);
  });

  test("are given back when no slot becomes free, as if they had never been taken, and another worker has them", async () => {
    const held = await scene();
    const waiting = await untilReserved(held);
    await eventually(held.owned, { until: (ids) => ids.length === CONCURRENCY, what: "the reserve to be given back" });
    await expectUntouched(waiting);
    held.open();
    const other = await held.start();
    onTestFinished(() => other.stop({ now: true }));
    await eventually(() => waiting.every((id) => held.seen.begun.includes(id)), { what: "all that was given back" });
    expect(new Set(held.seen.begun).size).toBe(held.seen.begun.length);
  });

  test("are given back by a worker that stops, also while its handlers go on", async () => {
    const held = await scene();
    const waiting = await untilReserved(held);
    const stopped = held.worker.stop();
    await eventually(held.owned, { until: (ids) => ids.length === CONCURRENCY, what: "the reserve to be given back" });
    await expectUntouched(waiting);
    held.open();
    await stopped;
    expect(await held.owned()).toEqual([]);
    expect(held.seen.begun.filter((id) => waiting.includes(id))).toEqual([]);
  });

  test("are cancelled where they wait, if somebody asks for it, while every slot is held", async () => {
    const held = await scene();
    const cancelOne = async () => {
      const [id = ""] = (await untilReserved(held)).slice(-1);
      const [cancelled] = await everbeat.tasks.cancel(id);
      if (cancelled?.outcome !== "cancelling") held.open();
      return { id, outcome: cancelled?.outcome };
    };
    // On a slow machine it may have been given back by then, which is another case.
    const { id } = await eventually(cancelOne, { until: ({ outcome }) => outcome === "cancelling" });
    await eventually(async () => (await everbeat.tasks.show(id)).state, { until: (state) => state === "cancelled" });
    expect(held.seen.begun).not.toContain(id);
  });

  test.each([200, 260, 300, 350, 450])("go on when all handlers have been held up for %i ms", async (ms) => {
    const held = await scene();
    await untilReserved(held);
    await new Promise((resume) => setTimeout(resume, ms));
    const before = held.seen.begun.length;
    held.open();
    await eventually(() => held.seen.begun.length > before + 500, { what: "500 more" });
  });
});

describe("no task waits for a slot", () => {
  test.each<[string, Partial<TaskOptions>, WorkOptions, Parameters<typeof scene>[2]?]>([
    ["that must not be repeated: its worker's death would be taken for its own failure", { onCrash: "fail" }, {}],
    ["of a worker that runs one at a time", {}, { concurrency: 1 }],
    ["of a queue with a limit, of which it would take a part", {}, {}, { limits: { concurrency: 4 * CONCURRENCY } }],
    [
      "of a queue with a rate, of which it would take a part",
      {},
      {},
      { limits: { rateLimit: { limit: 1_000_000, per: "1s" } } },
    ],
    ["that has an exclusive key, which it would hold", {}, {}, { hasKeys: true }],
  ])("%s", async (_, options, work, more) => {
    const { seen, owned } = await scene(options, work, more);
    const most = await mostOwned(owned, () => seen.begun.length > 300);
    expect(most).toBeLessThanOrEqual(work.concurrency ?? CONCURRENCY);
  });

  test("of those that take long, however many end at the same moment", async () => {
    const { seen, owned } = await scene({}, {}, { takesMs: 200 });
    const most = await mostOwned(owned, () => seen.begun.length > 6 * CONCURRENCY);
    // A single one may, which is about to begin.
    expect(most).toBeLessThanOrEqual(CONCURRENCY + 1);
  });
});

describe("what must not wait for a slot is not passed over either, however many short tasks there are", () => {
  /** At work on many plain tasks, and on this one's as well. */
  async function besideMany(task: AnyTask, queue: string, others: readonly string[] = []): Promise<void> {
    const plain = defineTask({
      ...{ name: unique("plain"), queue, onCrash: "requeue" },
      run: (_input: unknown) => new Promise<void>((resume) => setTimeout(resume, 1)),
    });
    for (let left = TASKS; left > 0; left -= 1_000) await everbeat.enqueueMany(plain, new Array(1_000));
    const worker = await working([plain, task], { queues: [queue, ...others], concurrency: CONCURRENCY });
    onTestFinished(async () => {
      await worker.stop({ now: true });
      await database.query("delete from everbeat.ready where queue = $1", [queue]);
    });
  }

  const quick = () => defineTask({ name: unique("quick"), onCrash: "requeue", run: (_input: unknown) => {} });
  /** Counted by the server: to read thousands of rows every few milliseconds would leave nothing of a busy machine to the worker. */
  const left = async (queue: string) =>
    Number((await database.query("select count(*) from everbeat.ready where queue = $1", [queue]))[0]?.["count"]);

  test.each<QueueOptions>([{ concurrency: 2 }, { rateLimit: { limit: 1_000, per: "1s" } }])(
    "tasks of a queue with a limit: %j",
    async (limits) => {
      const [task, queue, limited] = [quick(), unique("many"), unique("limited")];
      await everbeat.queues.set(limited, limits);
      await besideMany(task, queue, [limited]);
      await eventually(() => left(queue), { until: (n) => n < TASKS - 2_000, every: 5, what: "a pace" });
      const ids = await everbeat.enqueueMany(task, new Array(20), { options: { queue: limited } });
      await Promise.all(ids.map((id) => everbeat.result(id, { timeout: 20_000 })));
      expect(await left(queue)).toBeGreaterThan(0);
    },
  );

  test("a chain behind one exclusive key", async () => {
    const [task, queue] = [quick(), unique("many")];
    const ids = await everbeat.enqueueMany(task, new Array(20), { options: { queue, exclusiveKey: queue } });
    await besideMany(task, queue);
    await Promise.all(ids.map((id) => everbeat.result(id, { timeout: 20_000 })));
    expect(await left(queue)).toBeGreaterThan(0);
  });
});

describe("a claim with room for more than there are slots", () => {
  const name = unique("by-hand");
  const byHand = defineTask({ name, onCrash: "requeue", run: (_input: unknown) => {} });
  const { replicaId } = handClaimer(everbeat.database, [name]);

  /** One after the other in one queue, and the last of these in another of lower priority. */
  async function claimed(limits: QueueOptions, request: { run: number; reserve: number }, keys = 0) {
    await putOnRecord(everbeat.database, replicaId, [name]);
    const [first, last] = [unique("first"), unique("last")];
    await everbeat.queues.set(first, limits);
    await everbeat.enqueueMany(byHand, [1, 2, 3, 4, 5, 6], {
      options: (n) => ({ queue: first, ...((n as number) > 6 - keys ? { exclusiveKey: `${first} ${n}` } : {}) }),
    });
    await everbeat.enqueueMany(byHand, [7, 8], { options: { queue: last, priority: 1 } });
    const look = { replicaId, names: [name], queues: [first, last], room: [null, null], prefetch: 0, cursors: [] };
    const { claimed, hasMore } = await claimTasks(everbeat.database, { ...look, ...request });
    return { inputs: claimed.map(({ input }) => input), hasMore };
  }

  test("takes plain tasks for all of it", async () => {
    expect(await claimed({}, { run: 2, reserve: 5 })).toEqual({ inputs: [1, 2, 3, 4, 5, 6, 7], hasMore: false });
    expect(await claimed({}, { run: 0, reserve: 3 })).toEqual({ inputs: [1, 2, 3], hasMore: false });
  });

  test.each<[string, QueueOptions]>([
    ["a limit", { concurrency: 100 }],
    ["a rate", { rateLimit: { limit: 100, per: "1m" } }],
  ])("takes no more of a queue with %s than begin, nor what comes after, and says so", async (_, limits) => {
    expect(await claimed(limits, { run: 2, reserve: 5 })).toEqual({ inputs: [1, 2], hasMore: true });
    expect(await claimed(limits, { run: 0, reserve: 5 })).toEqual({ inputs: [], hasMore: true });
    expect(await claimed(limits, { run: 7, reserve: 0 })).toEqual({ inputs: [1, 2, 3, 4, 5, 6, 7], hasMore: false });
  });

  test("takes no more than begin where one of them has a key, and says so", async () => {
    expect(await claimed({}, { run: 2, reserve: 5 }, 1)).toEqual({ inputs: [1, 2], hasMore: true });
    expect(await claimed({}, { run: 0, reserve: 6 }, 1)).toEqual({ inputs: [], hasMore: true });
    // Those before it were enough.
    expect(await claimed({}, { run: 2, reserve: 3 }, 1)).toEqual({ inputs: [1, 2, 3, 4, 5], hasMore: false });
    expect(await claimed({}, { run: 8, reserve: 0 }, 6)).toEqual({ inputs: [1, 2, 3, 4, 5, 6, 7, 8], hasMore: false });
  });

  test("passes by what cannot be had: a queue at its limit, or without budget", async () => {
    expect(await claimed({ concurrency: 0 }, { run: 0, reserve: 5 })).toEqual({ inputs: [7, 8], hasMore: false });
    const spent: QueueOptions = { rateLimit: { limit: 2, per: "1h" } };
    expect(await claimed(spent, { run: 2, reserve: 0 })).toEqual({ inputs: [1, 2], hasMore: false });
    const [first] = await database.query<{ key: string }>(
      "select key from everbeat.rate order by spent_until desc limit 1",
    );
    const queue = first?.key.replace("queue/", "") as string;
    const look = {
      replicaId,
      names: [name],
      queues: [queue],
      room: [null],
      prefetch: 0,
      cursors: [],
      run: 0,
      reserve: 5,
    };
    expect(await claimTasks(everbeat.database, look)).toMatchObject({ claimed: [], hasMore: false });
  });
});
