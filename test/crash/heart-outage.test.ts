/** The database goes away and comes back: its workers stop what must stop, and nobody is declared dead for it. */
import pg from "pg";
import { describe, expect, test, vi } from "vitest";
import { type CrashDatabase, openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { type OwnServer, startOwnServer } from "../support/own-server.ts";
import { PATIENT, startWorker, task, type WorkerProcess } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 120_000 });

const TASKS = [
  { handler: "deaf", name: "going-on", onCrash: "fail", whenCutOff: "continue" },
  { handler: "hold", name: "repeatable", onCrash: "requeue" },
  { handler: "quick" },
] as const;
/** Beats are missed for so long before it fences itself, and for so long before others would take it for dead. */
const FENCED_AFTER_MS = 6_400;
const DEAD_AFTER_MS = 8_000;

interface Scene {
  readonly server: OwnServer;
  readonly database: CrashDatabase;
  readonly workers: readonly WorkerProcess[];
  readonly goingOn: string;
  readonly repeatable: string;
}

/** Two workers, one with a task of each kind in hand. */
async function inTheMiddle(): Promise<Scene> {
  const server = await startOwnServer();
  const database = await openCrashDatabase({}, server.url);
  const start = () => startWorker({ url: database.url, tasks: TASKS, open: { recovery: PATIENT } });
  const workers = [await start(), await start()];
  const goingOn = await database.everbeat.enqueue(task("going-on"), {});
  const repeatable = await database.everbeat.enqueue(task("repeatable"), {});
  for (const taskId of [goingOn, repeatable]) await begunBy(workers, { taskId });
  return { server, database, workers, goingOn, repeatable };
}

function begunBy(workers: readonly WorkerProcess[], fits: object): Promise<unknown> {
  return Promise.any(workers.map((worker) => worker.heard({ handler: "begun", ...fits })));
}

async function expectNothingLost({ database, workers, goingOn, repeatable }: Scene): Promise<void> {
  const { everbeat } = database;
  // Both hearts are heard again, by whatever id.
  await eventually(
    async () =>
      (await database.query("select from everbeat.heart where beat_at > now() - interval '1 second' and not is_dead"))
        .length === 2,
    { within: 30_000, what: "two beating hearts" },
  );
  for (const worker of workers) worker.release();
  expect(await everbeat.result(goingOn, { timeout: 20_000 })).toBe("held");
  expect(await everbeat.result(repeatable, { timeout: 20_000 })).toBe("held");
  expect(await everbeat.tasks.show(goingOn)).toMatchObject({ attempt: 1, failures: 0 });
  for (const id of [goingOn, repeatable]) expect(await database.crashesOf(id)).toBe(0);
  expect(await everbeat.tasks.show(repeatable)).toMatchObject({ failures: 0 });
  expect(await database.deaths()).toBe(0);
  for (const { messages } of workers) {
    expect(messages.filter(({ event }) => event === "replica.dead" || event === "task.recovered")).toEqual([]);
  }
}

describe("PostgreSQL", () => {
  test("stopped for longer than it takes to be dead: what nobody repeats goes on, the rest stops itself, uncharged, and runs again", async () => {
    const scene = await inTheMiddle();
    const { server, workers, repeatable, database } = scene;
    await server.stop();
    for (const worker of workers) await worker.heard({ event: "replica.fenced" });
    await Promise.any(
      workers.map((worker) => worker.heard({ handler: "aborted", taskId: repeatable, code: "CUT_OFF" })),
    );
    const backAt = performance.now() + DEAD_AFTER_MS + 1_000 - FENCED_AFTER_MS;
    await eventually(() => performance.now() > backAt);
    await server.start();
    for (const worker of workers) await worker.heard({ event: "replica.rejoined" });
    await begunBy(workers, { taskId: repeatable, attempt: 2 });
    expect((await database.everbeat.tasks.show(repeatable)).attempts).toMatchObject([{ outcome: "aborted" }, {}]);
    await expectNothingLost(scene);
  });

  test("that comes and goes finds its workers each time, on whatever part of their way back", async () => {
    const scene = await inTheMiddle();
    const { server, workers, database } = scene;
    const pass = async (ms: number) => {
      const until = performance.now() + ms;
      await eventually(() => performance.now() > until);
    };
    for (const upMs of [50, 400, 900, 100]) {
      await server.stop();
      // Long enough for each heart that was beating to fence itself.
      await pass(FENCED_AFTER_MS + 600);
      await server.start();
      await pass(upMs);
    }
    for (const worker of workers) expect(worker.endedBy).toBeUndefined();
    await database.everbeat.result(await database.everbeat.enqueue(task("quick"), {}), { timeout: 20_000 });
    await expectNothingLost(scene);
  });

  test("killed under load: everything that was accepted is done, and no one is dead", async () => {
    const scene = await inTheMiddle();
    const { server, database } = scene;
    const accepted: string[] = [];
    let isOver = false;
    const caller = (async () => {
      while (!isOver) {
        await database.everbeat
          .enqueueMany(
            task("quick"),
            Array.from({ length: 20 }, () => ({})),
          )
          .then((ids) => accepted.push(...ids))
          .catch(() => {});
      }
    })();
    for (let kill = 0; kill < 2; kill++) {
      const before = accepted.length;
      await eventually(() => accepted.length > before + 200, { within: 30_000 });
      await server.kill();
      await server.start();
    }
    isOver = true;
    await caller;
    await eventually(
      async () =>
        (
          await database.query(
            "select from everbeat.task t where name = 'quick' and not exists (select from everbeat.ended e where e.task_id = t.id)",
          )
        ).length === 0,
      { within: 30_000, every: 200 },
    );
    const done = new Set(
      (await database.query<{ id: string }>("select id::text from everbeat.tasks where state = 'completed'")).map(
        ({ id }) => id,
      ),
    );
    expect(accepted.filter((id) => !done.has(id))).toEqual([]);
    await expectNothingLost(scene);
  });

  test("losing one backend to SIGKILL drops every session: its start is the same, its epoch is not, and no one is dead", async () => {
    const scene = await inTheMiddle();
    const { database, server } = scene;
    const epochs = () =>
      database.query<{ epoch: string; started: string }>(
        "select everbeat.current_epoch() as epoch, pg_postmaster_start_time()::text as started",
      );
    const [before] = await epochs();
    const victim = new pg.Client(server.url);
    victim.on("error", () => {});
    await victim.connect();
    process.kill((victim as unknown as { processID: number }).processID, "SIGKILL");
    const [after] = await eventually(epochs, { until: ([row]) => row?.epoch !== before?.epoch, within: 20_000 });
    expect(after?.started).toBe(before?.started);
    await expectNothingLost(scene);
  });
});
