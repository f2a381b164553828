/** Following tasks and replicas: what is told, in which order, from where on, and what it costs others. */
import { randomUUID } from "node:crypto";
import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { Everbeat } from "../../src/everbeat.ts";
import type { ReplicaUpdate, TaskUpdate } from "../../src/following/follow.ts";
import { readPosition, writePosition } from "../../src/following/position.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const { everbeat, database } = await openTestEverbeat();

/** Another Everbeat on the same database, as in another process. */
async function another(): Promise<Everbeat> {
  const other = await Everbeat.open({ database: database.url, log: "silent" });
  onTestFinished(() => other.close({ now: true }));
  return other;
}

async function readAll<Update>(stream: AsyncIterable<Update>): Promise<Update[]> {
  const updates: Update[] = [];
  for await (const update of stream) updates.push(update);
  return updates;
}

async function next<Update>(stream: AsyncIterator<Update>): Promise<Update> {
  const { value, done } = await stream.next();
  if (done) throw new Error("the stream is over");
  return value;
}

/** Begun: what happens from now on is written. */
async function begun(stream: AsyncIterableIterator<TaskUpdate, undefined>): Promise<TaskUpdate> {
  const first = await next(stream);
  expect(first.kind).toBe("state");
  return first;
}

const summary = (updates: readonly (TaskUpdate | ReplicaUpdate)[]) =>
  updates.map((update) =>
    [update.kind, "phase" in update ? (update.phase ?? "") : "", "state" in update ? update.state : ""]
      .filter(Boolean)
      .join(" "),
  );
const written = async (topic: string) =>
  (
    await database.query<{ kind: string }>("select kind from everbeat.happening where topic = $1 order by id", [topic])
  ).map(({ kind }) => kind);
const work = async (...tasks: Parameters<Everbeat["work"]>[0]) => {
  const worker = await everbeat.work(tasks, { handleSignals: false });
  onTestFinished(() => worker.stop({ now: true }));
  return worker;
};
/** A handler that goes on when it is told to. */
function held(name: string, options: Partial<Parameters<typeof defineTask>[0]> = {}) {
  let letGo = () => {};
  const released = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  const task = defineTask({
    name,
    ...options,
    run: async (_: object, { signal }) => {
      await Promise.race([
        released,
        new Promise((_resolve, reject) =>
          signal.addEventListener("abort", () => reject(signal.reason), { once: true }),
        ),
      ]);
      return "done";
    },
  });
  return { task, letGo };
}

/** As a release that forgets to tell does, or a table that was lost. Until the test is over. */
async function tellNobody(): Promise<void> {
  await database.query("alter function everbeat.tell_followers rename to tell_nobody");
  await database.query(
    `create function everbeat.tell_followers(p_kind text, p_topics text[], p_claims bigint[] default null, p_details json[] default null) returns integer
     language sql as 'select 0'`,
  );
  onTestFinished(async () => {
    await database.query("drop function everbeat.tell_followers");
    await database.query("alter function everbeat.tell_nobody rename to tell_followers");
  });
}

const steps = defineTask({
  name: "steps",
  run: async (_: object, { phase, progress }) => {
    await phase("one", { n: 1 });
    await phase("two");
    progress(0.5);
  },
});
const STEPS = ["running", "progress one", "progress two", "progress two", "ended completed"];

describe("a task is followed from another process", () => {
  test("from how it stands to its end, with each of its phases, in order", async () => {
    const stream = (await another()).follow(await everbeat.enqueue(steps, {}));
    expect(await begun(stream)).toMatchObject({ state: "pending", missed: false });
    await work(steps);
    const updates = await readAll(stream);
    expect(summary(updates)).toEqual(STEPS);
    expect(updates[1]).toMatchObject({ phase: "one", details: { n: 1 } });
    expect(updates[3]).toMatchObject({ share: 0.5 });
    expect(updates.map(({ at }) => at)).toEqual(updates.map(({ at }) => at).toSorted((one, other) => +one - +other));
  });

  test("by several at once, each with a stream of its own", async () => {
    const other = await another();
    const id = await everbeat.enqueue(steps, {});
    const streams = [other.follow(id), other.follow(id), (await another()).follow(id)];
    for (const stream of streams) await begun(stream);
    await work(steps);
    expect((await Promise.all(streams.map(readAll))).map(summary)).toEqual([STEPS, STEPS, STEPS]);
  });

  test("late: how it stands comes first, and of a task that has ended that is all", async () => {
    const { task, letGo } = held("late");
    await work(task);
    const id = await everbeat.enqueue(task, {});
    await eventually(async () => (await everbeat.tasks.show(id)).state === "running");
    const stream = (await another()).follow(id);
    expect(await begun(stream)).toMatchObject({ state: "running", attempt: 1, claimId: expect.any(String) });
    letGo();
    expect(summary(await readAll(stream))).toEqual(["ended completed"]);
    const [end] = await readAll((await another()).follow(id));
    expect(end).toMatchObject({ kind: "ended", state: "completed" });
    expect(end?.at).toEqual((await everbeat.tasks.show(id)).endedAt);
  });

  test("through attempts that fail: when it runs again, and why", async () => {
    const flaky = defineTask({
      name: "flaky",
      retry: { attempts: 2, delay: 10 },
      run: (_: object, { task }) => {
        const cause = new Error("behind it".repeat(500));
        throw new Error(`attempt ${task.attempt}`, { cause });
      },
    });
    const stream = (await another()).follow(await everbeat.enqueue(flaky, {}));
    await begun(stream);
    await work(flaky);
    const updates = await readAll(stream);
    expect(summary(updates)).toEqual(["running", "pending", "running", "ended failed"]);
    expect(updates[1]).toMatchObject({
      because: "failed",
      dueAt: expect.any(Date),
      error: { message: "attempt 1", cause: { message: "behind it".repeat(500) } },
    });
    expect(updates[3]).toMatchObject({ attempt: 2, error: { message: "attempt 2" } });
  });

  test("that is not there: whoever follows is told", async () => {
    await expect(readAll(everbeat.follow(randomUUID()))).rejects.toMatchObject({ code: "TASK_NOT_FOUND" });
    const id = await everbeat.enqueue(steps, {}, { queue: "nobody" });
    const stream = everbeat.follow(id);
    await begun(stream);
    await database.query("delete from everbeat.ready where task_id = $1", [id]);
    await database.query("delete from everbeat.ready where queue = 'nobody'");
    await database.query("delete from everbeat.task where id = $1", [id]);
    await expect(readAll(stream)).rejects.toMatchObject({ code: "TASK_NOT_FOUND" });
  });

  test("with a wrong id, or a position that nobody has told: refused before anything is asked", () => {
    expect(() => everbeat.follow("nonsense", { from: "nonsense" })).toThrow(
      /from: must be the `position` of an update that was told before\n.*id: must be a task's id/,
    );
  });
});

describe("the end is told whoever ends the task:", () => {
  const deaf = defineTask({ name: "deaf", run: async (_: object) => new Promise<void>(() => {}) });
  const boom = defineTask({
    name: "boom",
    retry: { attempts: 1 },
    run: (_: object) => {
      throw new Error("boom");
    },
  });
  const untilRunning = (id: string) => eventually(async () => (await everbeat.tasks.show(id)).state === "running");

  /** What is told of a task from its enqueueing on, and that it was written: not only seen in how the task stands. */
  async function endOf(id: string, how: () => Promise<unknown>): Promise<TaskUpdate> {
    const stream = (await another()).follow(id);
    await begun(stream);
    await how();
    const last = (await readAll(stream)).at(-1) as TaskUpdate;
    expect(await written(`task ${id}`)).toContain("ended");
    return last;
  }

  test("its worker, well or not", async () => {
    const well = await everbeat.enqueue(steps, {});
    expect(await endOf(well, () => work(steps))).toMatchObject({ kind: "ended", state: "completed" });
    const badly = await everbeat.enqueue(boom, {});
    expect(await endOf(badly, () => work(boom))).toMatchObject({
      kind: "ended",
      state: "failed",
      error: { message: "boom" },
    });
  });

  test("somebody who cancels it while it waits", async () => {
    const id = await everbeat.enqueue(steps, {}, { delay: "1h" });
    const end = await endOf(id, () => everbeat.tasks.cancel(id, { reason: "enough" }));
    expect(end).toMatchObject({
      kind: "ended",
      state: "cancelled",
      error: { code: "TASK_CANCELLED", message: "enough" },
    });
  });

  test("somebody who cancels it while it runs: that it is asked to stop is told first", async () => {
    const { task } = held("cancelled");
    await work(task);
    const id = await everbeat.enqueue(task, {});
    await untilRunning(id);
    const stream = (await another()).follow(id);
    await begun(stream);
    await everbeat.tasks.cancel(id, { reason: "enough" });
    const updates = await readAll(stream);
    expect(summary(updates)).toEqual(["cancelling", "ended cancelled"]);
    expect(updates[0]).toMatchObject({ reason: "enough" });
  });

  test("upkeep, for a handler that does not hear", async () => {
    await work(deaf);
    const id = await everbeat.enqueue(deaf, {});
    await untilRunning(id);
    const end = await endOf(id, async () => {
      await everbeat.tasks.cancel(id);
      await database.query("update everbeat.running set cancel_force_at = now() where task_id = $1", [id]);
      await database.query(
        "select everbeat.force_cancels(array[claim_id], array[task_id], array[replica_id]) from everbeat.running where task_id = $1",
        [id],
      );
    });
    expect(end).toMatchObject({ kind: "ended", state: "cancelled" });
  });

  test("upkeep, where its time has run out", async () => {
    const id = await everbeat.enqueue(steps, {}, { delay: "1h", expiresIn: "2h" });
    const end = await endOf(id, async () => {
      await database.query("update everbeat.ready set expires_at = now() where task_id = $1", [id]);
      await database.query("select everbeat.expire_tasks(array[$1::uuid])", [id]);
    });
    expect(end).toMatchObject({ kind: "ended", state: "expired" });
  });

  test("its handler, in a transaction of its own", async () => {
    const pool = new pg.Pool({ connectionString: database.url, max: 1 });
    onTestFinished(() => pool.end());
    const own = defineTask({
      name: "own-transaction",
      run: async (_: object, { claim }) => {
        const client = await pool.connect();
        await client.query("begin");
        await claim.completeIn(client, "mine");
        await client.query("commit");
        client.release();
      },
    });
    const id = await everbeat.enqueue(own, {});
    expect(await endOf(id, () => work(own))).toMatchObject({ kind: "ended", state: "completed" });
  });

  test("who sets it aside, because nobody can claim it", async () => {
    const id = await everbeat.enqueue(steps, {}, { queue: "set-aside", delay: "1h" });
    const end = await endOf(id, () =>
      database.query(
        `select everbeat.end_pending('{}', 'failed', '{"code":"NOT_CLAIMABLE","message":"no"}', array(select ctid from everbeat.ready where task_id = $1))`,
        [id],
      ),
    );
    expect(end).toMatchObject({ kind: "ended", state: "failed", error: { code: "NOT_CLAIMABLE" } });
  });

  test("somebody who takes it away: it waits again, runs again, and then it ends", async () => {
    const { task, letGo } = held("taken");
    await work(task);
    const id = await everbeat.enqueue(task, {});
    await untilRunning(id);
    const stream = (await another()).follow(id);
    await begun(stream);
    await everbeat.tasks.retry(id, { force: true });
    const updates = [await next(stream), await next(stream)];
    letGo();
    updates.push(...(await readAll(stream)));
    expect(summary(updates)).toEqual(["pending", "running", "ended completed"]);
    expect(updates[0]).toMatchObject({ because: "taken" });
  });

  test("also where nothing of it was written: a wrong row, a lost table, an old release", async () => {
    await tellNobody();
    const { task, letGo } = held("untold");
    const id = await everbeat.enqueue(task, {});
    const stream = (await another()).follow(id);
    await begun(stream);
    await work(task);
    const second = await next(stream);
    letGo();
    expect(summary([second, ...(await readAll(stream))])).toEqual(["state running", "ended completed"]);
    expect(await written(`task ${id}`)).toEqual([]);
  });
});

/** Somebody who follows it all along, so that what happens is written whoever else comes and goes. */
async function keptUp(id: string): Promise<void> {
  const stream = (await another()).follow(id);
  await begun(stream);
  onTestFinished(async () => void (await stream.return?.()));
}

describe("a position", () => {
  test("goes on behind its update, in any process, whichever update it is", async () => {
    const { task, letGo } = held("kept");
    const id = await everbeat.enqueue(task, {});
    await keptUp(id);
    const stream = (await another()).follow(id);
    const all = [await begun(stream)];
    await work(task);
    all.push(await next(stream));
    for (let times = 0; times < 3; times++) {
      await everbeat.tasks.retry(id, { force: true });
      all.push(await next(stream), await next(stream));
    }
    expect(summary(all)).toEqual(["state pending", "running", ...Array(3).fill(["pending", "running"]).flat()]);
    const other = await another();
    const rest = await Promise.all(
      all.slice(0, -1).map(async ({ position }, at) => {
        const resumed = other.follow(id, { from: position });
        const updates: TaskUpdate[] = [];
        while (updates.length < all.length - 1 - at) updates.push(await next(resumed));
        return { resumed, updates };
      }),
    );
    for (const [at, { updates }] of rest.entries()) {
      expect(summary(updates)).toEqual(summary(all.slice(at + 1)));
      expect(updates.map((update) => update.at)).toEqual(all.slice(at + 1).map((update) => update.at));
    }
    // Each goes on from there like everybody else, and nothing comes twice.
    letGo();
    for (const { resumed } of rest) expect(summary(await readAll(resumed))).toEqual(["ended completed"]);
    expect(summary(await readAll(stream))).toEqual(["ended completed"]);
  });

  test("goes on in the middle of an attempt: what it says next, and nothing of what was told before", async () => {
    const says: ((phase: string) => Promise<unknown>)[] = [];
    let letGo = () => {};
    const released = new Promise<void>((resolve) => {
      letGo = resolve;
    });
    const talks = defineTask({
      name: "talks",
      run: async (_: object, { phase }) => {
        says.push(phase);
        await released;
      },
    });
    const id = await everbeat.enqueue(talks, {});
    await keptUp(id);
    const stream = (await another()).follow(id);
    const all = [await begun(stream)];
    await work(talks);
    all.push(await next(stream));
    const other = await another();
    for (const name of ["one", "two", "three"]) {
      await eventually(() => says[0]);
      await says[0]?.(name);
      all.push(await next(stream));
    }
    expect(summary(all)).toEqual(["state pending", "running", "progress one", "progress two", "progress three"]);
    expect(new Set(all.map(({ position }) => position)).size).toBe(all.length);
    const resumed = all.slice(1).map(({ position }) => other.follow(id, { from: position }));
    const told = resumed.map(async (one) => summary(await readAll(one)));
    for (const [at, one] of all.slice(2, -1).entries()) {
      const again = other.follow(id, { from: one.position });
      expect(await next(again)).toMatchObject({ kind: "progress", at: all[at + 3]?.at });
      await again.return?.();
    }
    await eventually(
      async () =>
        (await database.query("select from everbeat.followed where topic = $1 and left_at is null", [`task ${id}`]))
          .length === 3,
    );
    letGo();
    const rest = [...summary(all), "ended completed"];
    expect(await Promise.all(told)).toEqual(all.slice(1).map((_, at) => rest.slice(at + 2)));
    const end = await next(stream);
    expect(end).toMatchObject({ kind: "ended", at: expect.any(Date) });
    // Behind the end there is nothing, however late somebody asks.
    expect(await readAll(other.follow(id, { from: end.position }))).toEqual([]);
    expect(await readAll((await another()).follow(id))).toMatchObject([{ kind: "ended" }]);
  });

  test("goes on with what nobody has told meanwhile, from how the task stands", async () => {
    const { task } = held("untold-cancel");
    await work(task);
    const id = await everbeat.enqueue(task, {});
    await eventually(async () => (await everbeat.tasks.show(id)).state === "running");
    await keptUp(id);
    const stream = (await another()).follow(id);
    const { position } = await begun(stream);
    await stream.return?.();
    await database.query("update everbeat.running set cancel_requested_at = now() where task_id = $1", [id]);
    const late = (await another()).follow(id, { from: position });
    expect(await next(late)).toMatchObject({ kind: "state", state: "running", isCancelling: true, missed: false });
    await late.return?.();
  });

  test("can be gone on from for as long as somebody follows, and a while after: then it begins with how the task stands", async () => {
    const id = await everbeat.enqueue(steps, {}, { delay: "1h" });
    const reader = (await another()).follow(id);
    const { position } = await begun(reader);
    await reader.return?.();
    await eventually(
      async () =>
        (await database.query("select from everbeat.followed where topic = $1 and left_at is not null", [`task ${id}`]))
          .length,
    );
    const soon = (await another()).follow(id, { from: position });
    const update = next(soon);
    await eventually(
      async () =>
        (await database.query("select from everbeat.followed where topic = $1 and left_at is null", [`task ${id}`]))
          .length,
    );
    await everbeat.tasks.cancel(id);
    expect(await update).toMatchObject({ kind: "ended", state: "cancelled" });

    const second = await everbeat.enqueue(steps, {}, { delay: "1h" });
    const late = (await another()).follow(second, { from: position });
    expect(await next(late)).toMatchObject({ kind: "state", state: "pending", missed: true });
    await late.return?.();
  });

  test("of another life of the server begins with how the task stands", async () => {
    const id = await everbeat.enqueue(steps, {}, { delay: "1h" });
    await keptUp(id);
    const stream = (await another()).follow(id);
    const position = readPosition((await begun(stream)).position);
    if (!position) throw new Error("no position");
    const old = (await another()).follow(id, { from: writePosition({ ...position, epoch: "abc" }) });
    expect(await next(old)).toMatchObject({ kind: "state", missed: true });
    for (const one of [stream, old]) await one.return?.();
  });

  test("behind which something was removed begins with how the task stands", async () => {
    const id = await everbeat.enqueue(steps, {}, { delay: "1h" });
    await keptUp(id);
    const stream = (await another()).follow(id);
    const { position } = await begun(stream);
    await database.query("delete from everbeat.happening_mark");
    await database.query("insert into everbeat.happening (topic, kind) values ('task x', 'x')");
    await database.query("insert into everbeat.happening_mark (last_id) select max(id) from everbeat.happening");
    await database.query("select everbeat.tell_followers('stalled', array[$1])", [`task ${id}`]);
    expect((await next(stream)).kind).toBe("stalled");
    await database.query("update everbeat.happening_mark set marked_at = now() - interval '11 minutes'");
    await database.query("select everbeat.tidy_happenings()");
    expect(await database.query("select from everbeat.happening where topic = 'task x'")).toEqual([]);
    const late = (await another()).follow(id, { from: position });
    expect(await next(late)).toMatchObject({ kind: "state", missed: true });
    // Who reads all along has missed nothing.
    await everbeat.tasks.cancel(id);
    expect(summary(await readAll(stream))).toEqual(["ended cancelled"]);
    expect(summary(await readAll(late))).toEqual(["ended cancelled"]);
  });
});

describe("replicas are followed", () => {
  test("all of them, or one: when they join, leave, fall silent, die and come back", async () => {
    const all = (await another()).followReplicas();
    await next(all);
    const worker = await everbeat.work([steps], { handleSignals: false });
    const { replicaId } = worker;
    expect(await next(all)).toMatchObject({ kind: "joined", replicaId, hostname: expect.any(String) });
    const one = (await another()).followReplicas({ replicaId });
    const stranger = (await another()).followReplicas({ replicaId: randomUUID() as typeof replicaId });
    await Promise.all([next(one), next(stranger)]);
    const silent =
      "insert into everbeat.unrest (kind, machine_id, hostname, replica_id) values ('stale', 'm', 'h', $1)";
    await database.query(silent, [replicaId]);
    await worker.stop();
    for (const change of ["status = 'dead', died_at = now()", "came_back_at = now(), came_back_how = 'fenced'"]) {
      await database.query(`update everbeat.replica set ${change} where id = $1`, [replicaId]);
    }
    for (const stream of [all, one]) {
      const told: ReplicaUpdate[] = [];
      while (told.at(-1)?.kind !== "rejoined") told.push(await next(stream));
      expect(told.map(({ kind }) => kind)).toEqual(["stale", "draining", "offline", "dead", "rejoined"]);
      expect(told.every((update) => "replicaId" in update && update.replicaId === replicaId)).toBe(true);
      await stream.return?.();
    }
    const untold = next(stranger);
    await stranger.return?.();
    // Nothing of others.
    await expect(untold).rejects.toThrow("the stream is over");
  });

  const join = async () => {
    const id = randomUUID() as NonNullable<Parameters<Everbeat["followReplicas"]>[0]>["replicaId"];
    await database.query(
      "insert into everbeat.replica (id, hostname, pid, version, tasks) values ($1, 'h', 1, '0', '{}')",
      [id],
    );
    return { replicaId: id, change: `update everbeat.replica set status = 'dead', died_at = now() where id = '${id}'` };
  };

  test("also a death that was under way when they began to be followed", async () => {
    const { replicaId, change } = await join();
    const client = new pg.Client(database.url);
    await client.connect();
    onTestFinished(() => client.end());
    await client.query("begin");
    await client.query(change);
    const stream = (await another()).followReplicas({ replicaId });
    const first = await next(stream);
    expect(first).toMatchObject({ kind: "state", missed: false });
    await client.query("commit");
    // So is a reader who comes back with the position from before.
    const back = (await another()).followReplicas({ replicaId, from: first.position });
    for (const reader of [stream, back]) {
      expect(await next(reader)).toMatchObject({ kind: "dead", replicaId, hostname: "h" });
      await reader.return?.();
    }
  });

  test("also where nothing of it was written, and once", async () => {
    await tellNobody();
    const all = (await another()).followReplicas();
    await next(all);
    const { replicaId, change } = await join();
    expect(await next(all)).toMatchObject({ kind: "joined", replicaId });
    await database.query(change);
    expect(await next(all)).toMatchObject({ kind: "dead", replicaId });
    await database.query("update everbeat.replica set came_back_at = now(), came_back_how = 'fenced' where id = $1", [
      replicaId,
    ]);
    expect(await next(all)).toMatchObject({ kind: "rejoined", replicaId });
    await all.return?.();
    expect(await written(`replica ${replicaId}`)).toEqual([]);
  });

  test("from behind each change that nobody has written, also of those of one transaction", async () => {
    const all = (await another()).followReplicas();
    await next(all);
    const joined = [await join(), await join()].map(({ replicaId }) => replicaId);
    for (const replicaId of joined) expect(await next(all)).toMatchObject({ kind: "joined", replicaId });
    await tellNobody();
    const change = (set: string) =>
      database.query(`update everbeat.replica set ${set} where id = any ($1::uuid[])`, [joined]);
    await change("status = 'dead', died_at = now()");
    const told = [await next(all), await next(all)] as [ReplicaUpdate, ReplicaUpdate];
    expect(told.map(({ kind }) => kind)).toEqual(["dead", "dead"]);
    const [first, second] = told.map(({ position }) => everbeat.followReplicas({ from: position })) as [
      ReturnType<Everbeat["followReplicas"]>,
      ReturnType<Everbeat["followReplicas"]>,
    ];
    const { replicaId } = told[1] as { replicaId: string };
    expect(await next(first)).toMatchObject({ kind: "dead", replicaId });
    const behind = [next(first), next(second)];
    await eventually(
      async () =>
        (await database.query("select from everbeat.followed where topic = 'replica *' and left_at is null")).length >
        1,
    );
    await change("came_back_at = now(), came_back_how = 'fenced'");
    for (const one of behind) expect((await one).kind).toBe("rejoined");
    for (const stream of [all, first, second]) await stream.return?.();
  });

  test("by an id that is one", () => {
    expect(() => everbeat.followReplicas({ replicaId: "*" as never })).toThrow("replicaId: must be a replica's id");
  });
});

describe("a transaction that stays open", () => {
  const say = (client: { query(text: string): Promise<unknown> }, topic: string, kind: string) =>
    client.query(
      `select everbeat.tell_followers('${kind}', array['${topic}', 'replica *'], null, array_fill('{"replicaId":"r","hostname":"${topic}"}'::json, array[2]))`,
    );
  async function open(): Promise<pg.Client> {
    const client = new pg.Client(database.url);
    await client.connect();
    onTestFinished(() => client.end());
    await client.query("begin");
    return client;
  }

  test("is told of when it commits: nothing is missed, and nothing told twice", async () => {
    const stream = everbeat.followReplicas();
    expect(await next(stream)).toMatchObject({ kind: "state", missed: false });
    const [slow, slower] = [await open(), await open()];
    await say(slow, "slow", "stale");
    await say(slower, "slower", "stale");
    const told: ReplicaUpdate[] = [];
    const tell = async (topic: string) => {
      await say(database, topic, "joined");
      told.push(await next(stream));
    };
    for (const topic of ["a", "b", "c"]) await tell(topic);
    await slower.query("commit");
    told.push(await next(stream));
    await tell("d");
    await slow.query("commit");
    told.push(await next(stream));
    await tell("e");
    const hosts = (updates: readonly ReplicaUpdate[]) =>
      updates.map((update) => "hostname" in update && update.hostname);
    expect(hosts(told)).toEqual(["a", "b", "c", "slower", "d", "slow", "e"]);
    // From each position the rest follows, also from those at which others were still under way.
    for (const [at, { position }] of told.slice(0, -1).entries()) {
      const resumed = everbeat.followReplicas({ from: position });
      const rest: ReplicaUpdate[] = [];
      while (rest.length < told.length - 1 - at) rest.push(await next(resumed));
      // Things that have nothing to do with each other may come in another order.
      expect(hosts(rest).toSorted()).toEqual(hosts(told.slice(at + 1)).toSorted());
      await resumed.return?.();
    }
    await stream.return?.();
  });

  test("costs the others a probe, and not a walk over what has happened since", async () => {
    const client = new pg.Client(database.url);
    await client.connect();
    onTestFinished(() => client.end());
    const long = await open();
    await long.query("select pg_current_xact_id()");
    const follower = randomUUID();
    await database.query("select everbeat.follow_topics($1, array['busy'], 300000)", [follower]);
    const seen = async () => (await database.query<{ s: string }>("select pg_current_snapshot()::text as s"))[0]?.s;
    for (let times = 0; times < 20; times++) {
      await database.query(
        "insert into everbeat.happening (topic, kind) select 'busy', 'x' from generate_series(1, 500)",
      );
    }
    const rowsRead = async (snapshot: string | undefined) => {
      const { rows } = await client.query(
        `explain (analyze, buffers, format json) select * from everbeat.happenings_since('${follower}', '${snapshot}', 100)`,
      );
      return rows[0]["QUERY PLAN"][0].Plan["Shared Hit Blocks"] + rows[0]["QUERY PLAN"][0].Plan["Shared Read Blocks"];
    };
    const now = await seen();
    expect(now).toMatch(/^(\d+):(\d+):\1/);
    await rowsRead(now);
    expect(await rowsRead(now)).toBeLessThan(30);
    // What it would be without: from the beginning of that transaction on.
    expect(await rowsRead(`${now?.split(":")[0]}:${now?.split(":")[0]}:`)).toBeGreaterThan(60);
    await database.query("delete from everbeat.happening where topic = 'busy'");
  });
});
