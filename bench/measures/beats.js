/** What it costs to say that 10,000 running tasks on 10 replicas are alive, beside a row per task. */
import { setTimeout as pause } from "node:timers/promises";
import { PROFILES } from "../../dist/index.js";
import { until } from "../run/stage.js";

const OURS = "everbeat";
const REPLICAS = 10;
const REMEMBERED_EVERY_MS = 15_000;
const INTERVAL_MS = PROFILES.fast.runnerIntervalMs;

export const beats = {
  name: "beats",
  title: "One round of beats, 10,000 running tasks on 10 replicas",
  unit: "bytes",
  cases: [OURS],
  rounds: { full: 1, short: 1 },
  async run(stage) {
    const tasksEach = stage.amount(1_000, 200);
    const database = await stage.database();
    const filler = await stage.host(OURS);
    await filler.tell("enqueueMany", { count: REPLICAS * tasksEach });
    const work = { handler: "hold", concurrency: tasksEach, prefetch: 0 };
    const hosts = [];
    for (let n = 0; n < REPLICAS; n++) {
      const host = await stage.host(OURS);
      await host.tell("work", work);
      await until(() => host.tally.started === tasksEach, { withinMs: 60_000, what: "the start of all tasks" });
      hosts.push(host);
    }
    // The first change of a page after a checkpoint writes all of it: not what a round costs. Nor are those of the history, into
    // which one beat in 15 s goes; as many as that are a cycle, and a full run measures one.
    await stage.postgres.checkpoint();
    const rounds = stage.isShort ? 4 : Math.ceil(REMEMBERED_EVERY_MS / INTERVAL_MS);
    await pause((rounds + 1) * INTERVAL_MS);
    const before = await readings(stage, database);
    await pause(rounds * INTERVAL_MS);
    const after = await readings(stage, database);
    return {
      tasks: REPLICAS * tasksEach,
      beatWalBytes: (after.hearts - before.hearts) / rounds,
      /** Whatever else idle replicas write in that time: sweeps, their own claims looked at. */
      allWalBytes: (after.all - before.all) / rounds,
      ...(await rowPerTask(stage, database, REPLICAS * tasksEach)),
    };
  },
};

/** The server counts per session; hearts have sessions of their own. */
async function readings(stage, database) {
  const [{ bytes }] = await database.query(
    `select coalesce(sum(w.wal_bytes), 0)::float8 as bytes from pg_stat_activity a, pg_stat_get_backend_wal(a.pid) w
     where a.application_name = 'everbeat heart' and a.datname = current_database()`,
  );
  return { hearts: bytes, all: await stage.postgres.walBytes() };
}

/** The same said with a row per task: appended, or updated in place with room on its page. */
async function rowPerTask(stage, database, tasks) {
  const walOf = async (statement) => {
    const before = await stage.postgres.walBytes();
    await database.query(statement, [tasks]);
    return (await stage.postgres.walBytes()) - before;
  };
  await database.query(
    "create table bench_beat (id bigint generated always as identity primary key, task_id uuid, at timestamptz)",
  );
  await database.query("create table bench_alive (task_id integer primary key, at timestamptz) with (fillfactor = 50)");
  await walOf("insert into bench_alive select n, clock_timestamp() from generate_series(1, $1) n");
  const append =
    "insert into bench_beat (task_id, at) select gen_random_uuid(), clock_timestamp() from generate_series(1, $1)";
  const update = "update bench_alive set at = clock_timestamp() where task_id <= $1";
  return { appendWalBytes: await walOf(append), updateWalBytes: await walOf(update) };
}
