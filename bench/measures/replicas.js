/** What idle replicas cost the server by their beats, by sweeps and who asks for them, and by all else: 1, 20, 120 (a short run: 50). */
import { setTimeout as pause } from "node:timers/promises";
import { processorMsOf } from "../environment/processor-time.js";
import { msSince, nowNs } from "../process/clock.js";

const OURS = "everbeat";
const IN_ONE_PROCESS = 25;
const SETTLE_MS = 4_000;

export const replicas = {
  name: "replicas",
  title: "Idle replicas: processor time of the server",
  unit: "ms/s",
  cases: [OURS],
  rounds: { full: 1, short: 1 },
  async run(stage) {
    const database = await stage.database();
    await countFunctions(database);
    // The server of the bench takes 200 connections. Every heart has one, and each process has some for all of its replicas.
    const most = stage.isShort ? 50 : 120;
    const forMs = stage.isShort ? 8_000 : 20_000;
    const fleet = new Fleet(stage);
    const [one, twenty, all] = [
      await fleet.growTo(1).then(() => costOf(database, forMs)),
      await fleet.growTo(20).then(() => costOf(database, forMs)),
      await fleet.growTo(most).then(() => costOf(database, forMs)),
    ];
    const perReplica = (figure) => (all[figure] - one[figure]) / (most - 1);
    return {
      replicas: most,
      one,
      twenty,
      all,
      /** What another replica adds, in milliseconds of a processor per second. */
      beatsEach: perReplica("beats"),
      sweepsEach: perReplica("sweeps"),
      besideEach: perReplica("beside"),
    };
  },
};

/** Many in one process: each has a heart of its own, and they share the connections of their process, as the server sees it. */
class Fleet {
  #stage;
  #host;
  #size = 0;

  constructor(stage) {
    this.#stage = stage;
  }

  async growTo(size) {
    for (; this.#size < size; this.#size++) {
      if (this.#size % IN_ONE_PROCESS === 0) this.#host = await this.#stage.host(OURS);
      await this.#host.tell("work", { handler: "nothing", handleSignals: false });
    }
    await pause(SETTLE_MS);
  }
}

/** Of hearts' sessions, and of all others of this database, per second. */
async function costOf(database, forMs) {
  const [before, sweptBefore] = [await sessions(database), await sweeping(database)];
  const startedNs = nowNs();
  await pause(forMs);
  const [after, swept] = [await sessions(database), await sweeping(database)];
  const seconds = msSince(startedNs) / 1_000;
  // A session that has gone meanwhile has taken its time with it; one that has come counts from its beginning.
  const spent = (isHeart) =>
    [...after].reduce((sum, [pid, { heart, ms }]) => {
      return heart === isHeart ? sum + ms - (before.get(pid)?.ms ?? 0) : sum;
    }, 0) / seconds;
  return {
    beats: spent(true),
    /** Whatever is no beat: sweeps, looks for tasks and for one's own claims, upkeep. */
    beside: spent(false),
    /** Of that, as long as the functions of a sweep took. */
    sweeps: (swept.ms - sweptBefore.ms) / seconds,
    questions: (swept.questions - sweptBefore.questions) / seconds,
  };
}

/** For all sessions that begin from now on. */
async function countFunctions(database) {
  const [{ name }] = await database.query("select current_database() as name");
  await database.query(`alter database "${name}" set track_functions = 'all'`);
}

async function sweeping(database) {
  const [row] = await database.query(
    `select coalesce(sum(total_time), 0)::float8 as ms, coalesce(sum(calls) filter (where funcname = 'take_turns'), 0)::float8 as questions
     from pg_stat_user_functions where funcname in ('take_turns', 'end_turn', 'begin_sweep', 'doubtful_hearts', 'absent_owners')`,
  );
  return row;
}

async function sessions(database) {
  const rows = await database.query(
    `select pid, application_name = 'everbeat heart' as heart from pg_stat_activity
     where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`,
  );
  return new Map(rows.map(({ pid, heart }) => [pid, { heart, ms: processorMsOf(pid) }]));
}
