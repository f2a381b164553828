/** What following costs: nothing where nobody follows, little for a thousand who do, and nothing that stays when they have gone. */
import { getActiveResourcesInfo } from "node:process";
import { describe, expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { followingOn, readAll } from "../support/following.ts";

const { everbeat, database } = await openTestEverbeat();
const { another } = followingOn({ everbeat, database });
const speak = defineTask({
  name: "speak",
  run: async (_: object, { phase }) => {
    for (let step = 1; step <= 3; step++) await phase(`step ${step}`);
  },
});
const count = async (table: string) =>
  (await database.query<{ n: number }>(`select count(*)::int as n from everbeat.${table}`))[0]?.n;
const isDrawn = async () =>
  (await database.query<{ isDrawn: boolean }>(`select is_called as "isDrawn" from everbeat.happening_id`))[0]?.isDrawn;
const later = { queue: "nobody-serves-it" };

test("where nobody follows, nothing is written", async () => {
  const worker = await everbeat.work([speak], { handleSignals: false });
  const ids = await everbeat.enqueueMany(
    speak,
    Array.from({ length: 50 }, () => ({})),
  );
  for (const id of ids) await everbeat.result(id);
  const cancelled = await everbeat.enqueue(speak, {}, later);
  await everbeat.tasks.cancel(cancelled);
  await worker.stop();
  expect(await isDrawn()).toBe(false);
});

test("what nobody follows is not written because others are followed", async () => {
  const [followed, other] = [await everbeat.enqueue(speak, {}, later), await everbeat.enqueue(speak, {}, later)];
  const stream = everbeat.follow(followed);
  await stream.next();
  await everbeat.tasks.cancel(other);
  await everbeat.tasks.cancel(followed);
  expect((await readAll(stream)).map(({ kind }) => kind)).toEqual(["ended"]);
  expect(await database.query("select distinct topic from everbeat.happening")).toEqual([
    { topic: `task ${followed}` },
  ]);
});

describe("a reader", () => {
  test("that is slow loses the oldest updates, is told how many, and is told the end", async () => {
    const id = await everbeat.enqueue(speak, {}, later);
    const stream = (await another()).follow(id);
    await stream.next();
    for (let times = 0; times < 250; times++) {
      await database.query("select everbeat.tell_followers('stalled', array[$1])", [`task ${id}`]);
    }
    await everbeat.tasks.cancel(id);
    // All is read from the database, and what was not read from the stream is bounded: it has left its topic.
    await eventually(async () => (await count(`followed where topic = 'task ${id}'`)) === 0);
    const updates = await readAll(stream);
    expect(updates[0]).toMatchObject({ kind: "dropped", count: 151, position: expect.any(String) });
    expect(updates).toHaveLength(1 + 100);
    expect(updates.at(-1)).toMatchObject({ kind: "ended", state: "cancelled" });
  });

  test("that breaks out of its loop, gives a signal, or is closed has left", async () => {
    const other = await another();
    const ids = await everbeat.enqueueMany(speak, [{}, {}, {}], { options: later });
    const [first = "", second = "", third = ""] = ids;
    for await (const update of other.follow(first)) {
      expect(update.kind).toBe("state");
      break;
    }
    const controller = new AbortController();
    const aborted = readAll(other.follow(second, { signal: controller.signal }));
    const closed = readAll(other.follow(third));
    closed.catch(() => {});
    const isFollowed = (id: string) => count(`followed where topic = 'task ${id}' and left_at is null`);
    await eventually(async () => (await isFollowed(second)) === 1 && (await isFollowed(third)) === 1);
    controller.abort(new Error("enough"));
    await expect(aborted).rejects.toThrow("enough");
    await eventually(async () => (await isFollowed(first)) === 0 && (await isFollowed(second)) === 0);
    await other.close();
    await expect(closed).rejects.toMatchObject({ code: "CLOSED" });
    expect(await isFollowed(third)).toBe(0);
    await expect(readAll(other.follow(first))).rejects.toMatchObject({ code: "CLOSED" });
    const over = AbortSignal.abort(new Error("before it began"));
    await expect(readAll(everbeat.follow(first, { signal: over }))).rejects.toThrow("before it began");
  });

  test("that has not asked for anything yet has cost nothing", async () => {
    const before = await count("followed");
    for (let times = 0; times < 10; times++) everbeat.follow(await everbeat.enqueue(speak, {}, later));
    expect(await count("followed")).toBe(before);
  });
});

test("a thousand followers of a thousand tasks share statements and a connection, and leave nothing behind", {
  timeout: 120_000,
}, async () => {
  const other = await another();
  const handles = () => getActiveResourcesInfo().toSorted();
  const connections = async () =>
    (await database.query("select from pg_stat_activity where datname = current_database()")).length;
  const ids = await everbeat.enqueueMany(
    speak,
    Array.from({ length: 1_000 }, () => ({})),
  );
  const first = other.follow(ids[0] as string);
  await first.next();
  await first.return?.();
  await eventually(async () => (await count("followed where left_at is null")) === 0);
  const [handlesBefore, connectionsBefore] = [handles().length, await connections()];

  const streams = ids.map((id) => other.follow(id));
  await Promise.all(streams.map((stream) => stream.next()));
  expect(await count("followed where left_at is null")).toBe(1_000);
  // It looks by one statement at a time.
  expect(await connections()).toBeLessThanOrEqual(connectionsBefore + 1);
  expect(handles().length).toBeLessThanOrEqual(handlesBefore + 3);

  const reading = Promise.all(streams.map(readAll));
  const worker = await everbeat.work([speak], { handleSignals: false, concurrency: 50 });
  const told = await reading;
  await worker.stop();
  // A worker may give back what it has claimed ahead of its slots.
  for (const updates of told) {
    const steps = updates.filter(({ kind }) => kind === "progress" || kind === "ended");
    expect(steps.map((update) => ("phase" in update ? update.phase : update.kind))).toEqual([
      ...["step 1", "step 2", "step 3", "ended"],
    ]);
  }
  await eventually(async () => (await count("followed where left_at is null")) === 0);
  await eventually(() => handles().length <= handlesBefore, { what: "no more handles than before" });
  await eventually(async () => (await connections()) <= connectionsBefore + 1, {
    what: "no more connections than before",
  });
});

test("a process that is gone leaves, also where its lease was written before the clock was set back", async () => {
  await database.query("delete from everbeat.happening_mark");
  for (const [topic, until] of [
    ["over", "now() - interval '3 minutes'"],
    ["ahead", "now() + interval '1 hour'"],
    ["alive", "now() + interval '30 seconds'"],
  ]) {
    await database.query(
      `with f as (insert into everbeat.follower (id, until) values (gen_random_uuid(), ${until}) returning id)
       insert into everbeat.followed (topic, follower) select '${topic}', id from f`,
    );
  }
  await database.query("select everbeat.tidy_happenings()");
  expect(await database.query("select topic from everbeat.followed where topic in ('over', 'ahead', 'alive')")).toEqual(
    [{ topic: "alive" }],
  );
  expect(await count("follower where until > now() + interval '1 minute'")).toBe(0);
  await database.query("delete from everbeat.followed where topic = 'alive'");
});

test("what happened leaves after ten minutes, also where the clock was set back meanwhile", async () => {
  await database.query("delete from everbeat.happening_mark");
  await database.query("insert into everbeat.happening (topic, kind) values ('task x', 'x')");
  for (const at of ["now() - interval '11 minutes'", "now() + interval '1 hour'"]) {
    await database.query(`insert into everbeat.happening_mark (marked_at, last_id) values (${at}, 0)`);
  }
  await database.query("insert into everbeat.happening (topic, kind) values ('task y', 'x')");
  await database.query("select everbeat.tidy_happenings()");
  expect(await database.query("select topic from everbeat.happening where topic in ('task x', 'task y')")).toEqual([
    { topic: "task y" },
  ]);
  await database.query("delete from everbeat.happening_mark");
});
