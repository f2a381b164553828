/** What tasks say of themselves: coalesced on its way, on record before their end, and there when their worker was killed. */
import pg from "pg";
import { describe, expect, test, vi } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { type CrashDatabase, openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { PATIENT, startWorker, task } from "../support/worker-process.ts";
import { gate, workingOn } from "../support/working.ts";

vi.setConfig({ testTimeout: 120_000 });

const open = { recovery: PATIENT };
const pause = (ms: number) => new Promise((resume) => setTimeout(resume, ms));

/** Every write of a row, and every statement that wrote some. */
async function countWrites({ query }: CrashDatabase) {
  await query(`
    create table public.row_write (claim_id bigint, statement bigint);
    create function note_write() returns trigger language plpgsql as $$
      begin insert into public.row_write values (new.claim_id, txid_current()); return null; end $$;
    create trigger note_write after insert or update on everbeat.progress for each row execute function note_write()`);
  return async () => {
    const [row] = await query<{ rows: number; most: number; statements: number }>(
      `select coalesce(sum(n), 0)::int as rows, coalesce(max(n), 0)::int as most, (select count(distinct statement)::int from row_write) as statements
       from (select count(*) as n from row_write group by claim_id) w`,
    );
    return row ?? { rows: 0, most: 0, statements: 0 };
  };
}

const progressOf = async ({ everbeat }: CrashDatabase, id: string) =>
  (await everbeat.tasks.show(id)).attempts.at(-1)?.progress;

describe("progress", () => {
  test("of many tasks at once is written about once a second, all in one statement, and the last of each is kept", async () => {
    const database = await openCrashDatabase();
    const written = await countWrites(database);
    const flood = defineTask({
      name: "flood",
      run: async (_: undefined, { progress }) => {
        for (let step = 0; step < 300; step++) {
          progress({ done: step, total: 300 }, `step ${step}`);
          await pause(10);
        }
        progress({ done: 300, total: 300 }, "all of it");
      },
    });
    const startedAt = performance.now();
    await workingOn(database.everbeat).working([flood], { concurrency: 20 });
    const ids = await database.everbeat.enqueueMany(
      flood,
      Array.from({ length: 20 }, () => undefined),
    );
    for (const id of ids) await database.everbeat.result(id, { timeout: 50_000 });
    const seconds = (performance.now() - startedAt) / 1_000;
    for (const id of ids) {
      expect(await progressOf(database, id)).toMatchObject({ share: 1, done: 300, total: 300, note: "all of it" });
    }
    const { rows, most, statements } = await written();
    // One in each second, and the last word.
    expect(most).toBeLessThanOrEqual(seconds + 2);
    expect(rows).toBeGreaterThan(40);
    expect(statements).toBeLessThan(rows / 4);
  });

  test("that says the same again is not written again", async () => {
    const database = await openCrashDatabase();
    const written = await countWrites(database);
    const { open: end, opened } = gate();
    const same = defineTask({
      name: "same",
      run: async (_: undefined, { phase, progress }) => {
        const until = performance.now() + 2_500;
        while (performance.now() < until) {
          await phase("one", { part: 1 });
          progress(0.5);
          await pause(5);
        }
        await opened;
      },
    });
    await workingOn(database.everbeat).working([same]);
    const id = await database.everbeat.enqueue(same);
    await eventually(async () => (await progressOf(database, id))?.share === 0.5);
    end();
    await database.everbeat.result(id, { timeout: 20_000 });
    expect((await written()).rows).toBe(2);
  });

  test("is on record when a phase has been waited for, and a phase need not be waited for", async () => {
    const database = await openCrashDatabase();
    const seen: unknown[] = [];
    const phased = defineTask({
      name: "phased",
      run: async (_: undefined, { phase, progress, task }) => {
        for (const name of ["fetch", "parse", "store"]) {
          await phase(name, { of: 3 });
          const [row] = await database.query("select phase, details from everbeat.progress where task_id = $1", [
            task.id,
          ]);
          seen.push(row);
        }
        progress(0.9);
        void phase("farewell");
      },
    });
    await workingOn(database.everbeat).working([phased]);
    const id = await database.everbeat.enqueue(phased);
    await database.everbeat.result(id, { timeout: 20_000 });
    expect(seen).toEqual(["fetch", "parse", "store"].map((phase) => ({ phase, details: { of: 3 } })));
    expect(await progressOf(database, id)).toMatchObject({ phase: "farewell", details: null, share: 0.9 });
  });

  test("is on record where the task is completed in a transaction of its own", async () => {
    const database = await openCrashDatabase();
    const inOne = defineTask({
      name: "in-one",
      run: async (_: undefined, { claim, progress }) => {
        progress(1, "the last word");
        const client = new pg.Client(database.url);
        await client.connect();
        await client.query("begin");
        const result = await claim.completeIn(client, "completed there");
        await client.query("commit");
        await client.end();
        return result;
      },
    });
    await workingOn(database.everbeat).working([inOne]);
    const id = await database.everbeat.enqueue(inOne);
    expect(await database.everbeat.result(id, { timeout: 20_000 })).toBe("completed there");
    expect(await progressOf(database, id)).toMatchObject({ share: 1, note: "the last word" });
  });

  test("that is said wrongly fails the task with what is wrong", async () => {
    const { everbeat } = await openCrashDatabase();
    const wrong = defineTask({
      name: "wrong",
      run: async (how: number, { phase, progress }) => {
        if (how === 0) progress(50);
        if (how === 1) await phase("", () => {});
        if (how === 2) void phase("not waited for", { large: "x".repeat(5_000) }).then(() => {});
        await pause(50);
      },
    });
    await workingOn(everbeat).working([wrong]);
    const ends = await Promise.all(
      [0, 1, 2].map(async (how) => {
        const id = await everbeat.enqueue(wrong, how);
        return everbeat.result(id, { timeout: 20_000 }).catch((error: Error) => error.message);
      }),
    );
    expect(ends[0]).toMatch(/share from 0 to 1, or \{ done, total \}.*not 50/);
    expect(ends[1]).toMatch(/name: must be text.*\n.*details: it is not JSON: a function/);
    expect(ends[2]).toMatch(/details: it has at least \d+ bytes as JSON and at most 4096/);
  });

  test("of a claim that was taken away is not written", async () => {
    const database = await openCrashDatabase();
    const { everbeat } = database;
    const { open: goOn, opened } = gate();
    const { open: end, opened: ended } = gate();
    const late = defineTask({
      name: "late",
      run: async (_: undefined, { phase, task }) => {
        if (task.attempt > 1) return "second";
        await phase("mine");
        await opened;
        await phase("not mine any more");
        end();
        return "first";
      },
    });
    await workingOn(everbeat).working([late], { pollInterval: 60_000 });
    const id = await everbeat.enqueue(late);
    await eventually(async () => (await progressOf(database, id))?.phase === "mine");
    await everbeat.tasks.retry([id], { force: true });
    goOn();
    await ended;
    expect(await everbeat.result(id, { timeout: 20_000 })).toBe("second");
    const { attempts } = await everbeat.tasks.show(id);
    expect(attempts.map(({ outcome, progress }) => [outcome, progress?.phase])).toEqual([
      ["taken", "mine"],
      ["completed", undefined],
    ]);
  });

  test("survives the loss of every connection in the middle", async () => {
    const database = await openCrashDatabase();
    const { everbeat } = database;
    const cut = defineTask({
      name: "cut",
      run: async (_: undefined, { progress }) => {
        for (let step = 1; step <= 40; step++) {
          progress(step / 40);
          await pause(50);
          if (step % 10 === 0)
            await database
              .query(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and application_name <> 'everbeat heart'",
              )
              .catch(() => {});
        }
      },
    });
    await workingOn(everbeat).working([cut]);
    const id = await everbeat.enqueue(cut);
    await everbeat.result(id, { timeout: 40_000 });
    expect(await progressOf(database, id)).toMatchObject({ share: 1 });
  });

  test("is kept for as long as its task is, and no longer", async () => {
    const database = await openCrashDatabase();
    const { everbeat, query } = database;
    const kept = defineTask({ name: "kept", run: async (_: undefined, { phase }) => phase("said") });
    const worker = await workingOn(everbeat).working([kept], { retention: { maxAge: "1h" } });
    const id = await everbeat.enqueue(kept);
    await everbeat.result(id, { timeout: 20_000 });
    expect(await query("select phase from everbeat.progress")).toEqual([{ phase: "said" }]);
    await worker.stop();
    await workingOn(everbeat).working([kept], { retention: { maxAge: 0 } });
    await eventually(async () => (await query("select from everbeat.progress")).length === 0, { within: 20_000 });
    expect(await query("select from everbeat.task")).toEqual([]);
  });
});

describe("the last log lines", () => {
  test("of a task whose worker was killed are there, with its last phase, however much it logged", async () => {
    const database = await openCrashDatabase();
    const { everbeat } = database;
    const steps = [
      ["phase", "download", { platform: "cdn" }],
      ["log", "flooding", 100_000],
      ["log", `the last ${"x".repeat(2_000)}`],
      ["log", "and this"],
      ["hold"],
    ];
    const tasks = [{ handler: "script" }] as const;
    const worker = await startWorker({ url: database.url, open, tasks });
    const id = await everbeat.enqueue(task("script"), { steps });
    const lines = async () => (await progressOf(database, id))?.log ?? [];
    await eventually(async () => (await lines()).at(-1)?.text.startsWith("and this"), { within: 30_000 });
    await worker.kill();
    await startWorker({ url: database.url, open, tasks });
    await eventually(async () => (await everbeat.tasks.show(id)).state === "failed", { within: 20_000 });
    expect(await progressOf(database, id)).toMatchObject({ phase: "download", details: { platform: "cdn" } });
    const kept = await lines();
    expect(kept.length).toBeLessThanOrEqual(20);
    expect(JSON.stringify(kept).length).toBeLessThan(8_000);
    expect(kept.map(({ text }) => text.slice(0, 8)).slice(-3)).toEqual(["flooding", "the last", "and this"]);
    expect((await everbeat.recovery.explain(id)).evidence.join("\n")).toMatch(/its last phase was "download"/);
  });

  test("of tasks that end at once and well cost nothing", async () => {
    const database = await openCrashDatabase();
    const written = await countWrites(database);
    const chatty = defineTask({
      name: "chatty",
      run: async (isWell: boolean, { log }) => {
        log.info({ isWell }, "a word");
        if (!isWell) throw new Error("not well");
      },
    });
    const startedAt = performance.now();
    await workingOn(database.everbeat).working([chatty], { concurrency: 1, prefetch: 0 });
    const ids = await database.everbeat.enqueueMany(chatty, [...Array.from({ length: 200 }, () => true), false]);
    await Promise.allSettled(ids.map((id) => database.everbeat.result(id, { timeout: 40_000 })));
    // But for one that happens to run in the moment of a write, about once a second.
    expect((await written()).rows).toBeLessThan(3 + (performance.now() - startedAt) / 1_000);
    expect((await progressOf(database, ids.at(-1) ?? ""))?.log).toMatchObject([
      { level: "info", text: expect.stringContaining("a word") },
    ]);
  });
});
