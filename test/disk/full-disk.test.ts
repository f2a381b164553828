/** The disk under the database is full for longer than it takes to be dead: nothing is lost, and nobody is declared dead. */

import { randomBytes } from "node:crypto";
import { chown, mkdir, stat } from "node:fs/promises";
import { join } from "node:path";
import pg from "pg";
import { expect, test } from "vitest";
import { type CrashDatabase, openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { startOwnServer } from "../support/own-server.ts";
import { mountSmallDisk, type SmallDisk } from "../support/small-disk.ts";
import { SCALED, startWorker, task, type WorkerProcess } from "../support/worker-process.ts";

const OUTCOME_BYTES = 200_000;

/** A server whose databases, but not whose log of changes, lie on a small disk. */
async function openOnSmallDisk(): Promise<{ database: CrashDatabase; disk: SmallDisk }> {
  const server = await startOwnServer();
  const disk = await mountSmallDisk(96);
  const location = join(disk.folder, "tables");
  const client = new pg.Client(server.url);
  await client.connect();
  try {
    const { rows } = await client.query<{ folder: string }>("select current_setting('data_directory') as folder");
    const { uid, gid } = await stat(rows[0]?.folder ?? "");
    await mkdir(location, { mode: 0o700 });
    await chown(location, uid, gid);
    await client.query(`create tablespace small location '${location}'`);
    // What is copied from it is made where it is.
    await client.query("alter database template1 set tablespace small");
  } finally {
    await client.end();
  }
  return { database: await openCrashDatabase({}, server.url), disk };
}

/** So that the next beat that is to be remembered needs a page more: all there are are full to the last row. */
async function fillPagesOfHistory({ query }: CrashDatabase): Promise<void> {
  const row = "insert into everbeat.beat_history (replica_id, beat_at) values (gen_random_uuid(), now())";
  await query(`do $$ declare pages bigint := pg_relation_size('everbeat.beat_history'); begin
    while pg_relation_size('everbeat.beat_history') <= pages loop ${row}; end loop;
    for i in 1..155 loop ${row}; end loop; end $$`);
}

/** Long enough for the silent to be dead several times over, and for a beat that is to be remembered. */
async function untilHeardOften({ replica }: CrashDatabase, workers: readonly WorkerProcess[]): Promise<void> {
  for (const { replicaId } of workers) {
    const beats = new Set<number>();
    await eventually(async () => beats.add(Number((await replica(replicaId)).beat_at)).size > 70, {
      within: 90_000,
      what: `beats of ${replicaId} on a full disk`,
    });
  }
}

test("a tablespace that is full holds outcomes and refuses tasks, and goes on when there is room", async () => {
  const { database, disk } = await openOnSmallDisk();
  const { everbeat } = database;
  const start = () =>
    startWorker({
      url: database.url,
      open: { recovery: SCALED },
      work: { concurrency: 30 },
      tasks: [{ handler: "bulky", onCrash: "requeue" }, { handler: "quick" }],
      forward: [
        "heart.lost",
        "database.lost",
        "database.back",
        "replica.fenced",
        "replica.dead",
        "task.recovered",
        "claim.lost",
      ],
    });
  const workers = [await start(), await start()];
  const bulky = await everbeat.enqueueMany(
    task("bulky"),
    Array.from({ length: 20 }, () => ({ bytes: OUTCOME_BYTES })),
  );
  for (const taskId of bulky)
    await Promise.any(workers.map((worker) => worker.heard({ handler: "begun", taskId }, 30_000)));

  await fillPagesOfHistory(database);
  await disk.fill();
  for (const worker of workers) worker.release();
  const accepted: string[] = [];
  const refused: unknown[] = [];
  const enqueue = async () => {
    const input = { filler: randomBytes(50_000).toString("hex") };
    await everbeat.enqueue(task("quick"), input).then(
      (id) => accepted.push(id),
      (error) => refused.push(error),
    );
  };
  await eventually(
    async () => {
      await enqueue();
      return refused.length >= 5;
    },
    { within: 60_000 },
  );
  for (const error of refused) {
    expect(error).toMatchObject({
      code: "DATABASE_FULL",
      message: expect.stringMatching(/no room.*No space left on device.*Nothing of this call was written/s),
    });
  }
  await Promise.any(workers.map((worker) => worker.heard({ event: "database.lost" }, 30_000)));
  await untilHeardOften(database, workers);
  const held = await database.count("everbeat.running where state = 'running'");
  expect(held).toBeGreaterThan(0);
  expect(await database.deaths()).toBe(0);

  await disk.clear();
  for (const id of bulky) expect(String(await everbeat.result(id, { timeout: 60_000 }))).toHaveLength(OUTCOME_BYTES);
  const before = accepted.length;
  await enqueue();
  expect(accepted).toHaveLength(before + 1);
  for (const id of accepted) await everbeat.result(id, { timeout: 60_000 });
  // Each was run once, by whoever had it: nobody was taken for dead, and nobody took himself for cut off.
  const tasks = await database.query<{ id: string }>("select id::text from everbeat.tasks");
  expect(new Set(tasks.map(({ id }) => id))).toEqual(new Set([...bulky, ...accepted]));
  expect(await database.count("everbeat.tasks where attempt <> 1 or state <> 'completed'")).toBe(0);
  expect(await database.deaths()).toBe(0);
  for (const { messages } of workers) {
    const wrong = ["replica.fenced", "replica.dead", "task.recovered", "claim.lost"];
    expect(messages.filter(({ event }) => event && wrong.includes(event))).toEqual([]);
  }
  await database.expectSound();
});

test("a server that goes down for want of room loses nothing, and nobody is dead for it", async () => {
  const disk = await mountSmallDisk(160);
  const server = await startOwnServer({ on: disk.folder });
  const database = await openCrashDatabase({}, server.url);
  const { everbeat } = database;
  const start = () =>
    startWorker({
      url: database.url,
      open: { recovery: SCALED },
      tasks: [{ handler: "hold", onCrash: "requeue" }, { handler: "quick" }],
    });
  const workers = [await start(), await start()];
  const ids = await everbeat.enqueueMany(task("hold"), [{}, {}, {}, {}]);
  for (const taskId of ids)
    await Promise.any(workers.map((worker) => worker.heard({ handler: "begun", taskId }, 30_000)));

  await disk.fill();
  // Its log of changes cannot go on, and PostgreSQL rather goes down than to forget anything.
  const writeOn = () => database.query("select pg_logical_emit_message(true, 'full', repeat('x', 1000000))");
  const isDown = async () => {
    const error = await writeOn().then(
      () => undefined,
      (thrown: Error) => thrown,
    );
    return error !== undefined;
  };
  await eventually(isDown, { every: 0, within: 60_000, what: "a server without room" });
  await expect(everbeat.enqueue(task("quick"), {})).rejects.toMatchObject({
    code: expect.stringMatching(/^(DATABASE_UNAVAILABLE|DATABASE_FULL|ECONNREFUSED|57P0\d)$/),
  });

  await disk.clear();
  // It may have come back by itself in that very moment.
  const isUp = async () => {
    await server.start().catch(() => {});
    return database.query("select");
  };
  await eventually(isUp, { within: 60_000, what: "the server to be back" });
  const later = await everbeat.enqueue(task("quick"), {});
  await everbeat.result(later, { timeout: 60_000 });
  for (const worker of workers) worker.release();
  for (const id of ids) expect(await everbeat.result(id, { timeout: 60_000 })).toBe("held");
  for (const id of ids) expect(await database.crashesOf(id)).toBe(0);
  expect(await database.deaths()).toBe(0);
  await database.expectSound();
});
