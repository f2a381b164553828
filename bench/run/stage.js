/** Where one run takes place: a database of its own and processes that are gone when it is over, however it ended. */
import { setTimeout as pause } from "node:timers/promises";
import { msSince, nowNs } from "../process/clock.js";
import { HostProcess } from "../process/host-process.js";
import { systemNamed } from "../systems/index.js";

export class Stage {
  #environment;
  #hosts = [];
  #sessions = [];
  #database;
  #redisDatabase;
  #within = [];
  #isOver = false;

  /** `isShort`: the bench is asked for a short run. `scale`: how much of the usual amounts. */
  constructor(environment, { isShort, scale }) {
    this.#environment = environment;
    this.isShort = isShort;
    this.scale = scale;
  }

  get postgres() {
    return this.#environment.postgres;
  }

  /** The full amount, or the one for a short run; scaled where the bench was asked to. */
  amount(full, short) {
    return Math.max(10, Math.round((this.isShort ? short : full) * this.scale));
  }

  async database() {
    this.#database ??= await this.postgres.createDatabase();
    return this.#database;
  }

  /** Ended with the run. */
  async session() {
    const session = await (await this.database()).session();
    this.#sessions.push(session);
    return session;
  }

  /** A process of this system, connected, its schema there. `changes` replace parts of the variant's settings. */
  async host(name, changes) {
    const host = this.spawn(name);
    await this.connect(host, name, { changes });
    await host.tell("prepare");
    return host;
  }

  /** Only started: for measures of the start itself. */
  spawn(name) {
    if (this.#isOver) throw new Error("the run is over");
    const { adapter } = systemNamed(name);
    const host = new HostProcess({ node: this.#environment.node, adapter });
    this.#hosts.push(host);
    return host;
  }

  async connect(host, name, { changes } = {}) {
    const { variant } = systemNamed(name);
    const settings = await host.tell("open", { url: await this.urlFor(name), variant, changes });
    if (changes === undefined) this.#environment.settingsUsed[name] ??= settings;
  }

  async urlFor(name) {
    const { server } = systemNamed(name);
    if (server === "postgres") return (await this.database()).url;
    if (!this.#environment.redis) throw new Error("there is no Redis");
    this.#redisDatabase ??= this.#environment.redis.createDatabase();
    return this.#redisDatabase.url;
  }

  /** What the server that this system uses, and these processes, have used so far. */
  async costs(name, hosts) {
    const { server } = systemNamed(name);
    const isPostgres = server === "postgres";
    return {
      serverMs: isPostgres ? this.postgres.processorMs() : this.#environment.redis.processorMs(),
      clientMs: hosts.reduce((sum, host) => sum + host.processorMs, 0),
      walBytes: isPostgres ? await this.postgres.walBytes() : Number.NaN,
    };
  }

  /** A stage of its own within this run, with an empty database, cleared when `act` is done. */
  async apart(act) {
    const stage = new Stage(this.#environment, this);
    this.#within.push(stage);
    try {
      return await act(stage);
    } finally {
      await stage.clear();
    }
  }

  /** As autovacuum would within a minute: nobody is measured on plans for empty tables. */
  async analyse() {
    await this.#database?.query("analyze");
  }

  async clear() {
    if (this.#isOver) return;
    this.#isOver = true;
    await Promise.all(this.#within.map((stage) => stage.clear()));
    await Promise.all(this.#hosts.map((host) => host.kill()));
    await Promise.all(this.#sessions.map((session) => session.end().catch(() => {})));
    await this.#database?.drop();
    await this.#redisDatabase?.drop();
  }
}

/** What was used between two readings, per task. */
export function costPerTask(before, after, tasks) {
  return {
    serverMicros: ((after.serverMs - before.serverMs) * 1000) / tasks,
    clientMicros: ((after.clientMs - before.clientMs) * 1000) / tasks,
    walBytes: (after.walBytes - before.walBytes) / tasks,
  };
}

/** Asks again and again until it is so. */
export async function until(isSo, { everyMs = 2, withinMs = 120_000, what }) {
  const startedNs = nowNs();
  while (!(await isSo())) {
    if (msSince(startedNs) > withinMs) throw new Error(`${what} did not come within ${withinMs / 1000} s`);
    await pause(everyMs);
  }
}
