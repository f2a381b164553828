/** Going on with what was followed, from a position, in any process. */
import { describe, expect, test } from "vitest";
import type { TaskUpdate } from "../../src/following/follow.ts";
import { readPosition, writePosition } from "../../src/following/position.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { begun, followingOn, held, next, readAll, steps, summary } from "../support/following.ts";

const { everbeat, database } = await openTestEverbeat();
const { another, keptUp, work } = followingOn({ everbeat, database });

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
    expect(await next(late)).toMatchObject({ kind: "state", state: "running", isCancelling: true, missed: true });
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
