/** Following a task from another process: what is told, and in which order. */
import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { begun, followingOn, held, readAll, STEPS, steps, summary } from "../support/following.ts";

const { everbeat, database } = await openTestEverbeat();
const { another, work } = followingOn({ everbeat, database });

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
