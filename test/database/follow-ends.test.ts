/** Whoever follows a task is told its end, whoever ends it. */
import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import type { TaskUpdate } from "../../src/following/follow.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { begun, followingOn, held, next, readAll, steps, summary } from "../support/following.ts";

const { everbeat, database } = await openTestEverbeat();
const { another, tellNobody, work, written } = followingOn({ everbeat, database });

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
