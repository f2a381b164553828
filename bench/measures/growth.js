/** Whether a drain stays as fast while tables grow and others hold old snapshots: each beside a drain on empty tables. */
import { setTimeout as pause } from "node:timers/promises";
import { msSince, nowNs } from "../process/clock.js";
import { drain } from "../run/drain.js";
import { loadEnded } from "../run/load.js";
import { costPerTask } from "../run/stage.js";

const OURS = "everbeat/tuned";

/** Each prepares its database; says by how many tasks it grew, or for how long tasks are to go through before it counts. */
const SITUATIONS = {
  async pending(stage, filler) {
    const count = stage.amount(1_000_000, 200_000);
    await filler.tell("enqueueMany", { count });
    return { grownBy: count };
  },
  async ended(stage) {
    const count = stage.amount(5_000_000, 400_000);
    await loadEnded(await stage.database(), count);
    return { grownBy: count };
  },
  /** It has read, so that it has a snapshot, and does nothing since: a forgotten console, a lost connection. */
  async "idle-in-transaction"(stage) {
    const session = await stage.session();
    await session.query("begin isolation level repeatable read");
    await session.query("select count(*) from everbeat.tasks");
    return { churnMs: stage.amount(90_000, 10_000) };
  },
  /** Reports that read all tasks, slowly, half a minute each. */
  async readers(stage) {
    const readMs = stage.amount(30_000, 5_000);
    for (let n = 0; n < 4; n++) void readSlowly(await stage.session(), { readMs, firstMs: (readMs * (n + 1)) / 4 });
    return { churnMs: stage.amount(30_000, 5_000) };
  },
};

export const growth = {
  name: "growth",
  title: "Drain while tables grow or are held",
  unit: "tasks/s",
  cases: Object.keys(SITUATIONS),
  rounds: { full: 1, short: 1 },
  limitMs: 420_000,
  async run(stage, situation) {
    const count = stage.amount(60_000, 15_000);
    const filler = await stage.host(OURS);
    const { churnMs = 0, grownBy } = await SITUATIONS[situation](stage, filler);
    // As it would be long since, had all that grown by itself: not in the middle of the drain.
    await (await stage.database()).query("vacuum analyze");
    const startedNs = nowNs();
    let tasksBefore = 0;
    while (msSince(startedNs) < churnMs) {
      await drainOf(stage, filler, count);
      tasksBefore += count;
    }
    const samples = [];
    for (let pair = 0; pair < (stage.isShort ? 2 : 3); pair++) {
      const empty = await stage.apart((apart) => drainOnEmpty(apart, count));
      const grown = await drainOf(stage, filler, count);
      samples.push({
        ...{ perSecond: grown.perSecond, emptyPerSecond: empty.perSecond },
        ...{ serverMicros: grown.serverMicros, emptyServerMicros: empty.serverMicros },
        ...{ grownBy, tasksBefore },
      });
      tasksBefore += count;
    }
    return samples;
  },
};

/** Until so many were handled, in all cases alike, since where a million are pending there is no end to wait for. */
async function drainOf(stage, filler, count) {
  await stage.postgres.checkpoint();
  await filler.tell("enqueueMany", { count });
  const { ms, hosts, before, after } = await drain(stage, OURS, {
    count,
    work: { handler: "nothing" },
    leavesMore: true,
  });
  await Promise.all(hosts.map((host) => host.tell("close")));
  await Promise.all(hosts.map((host) => host.kill()));
  return { perSecond: (count * 1000) / ms, serverMicros: costPerTask(before, after, count).serverMicros };
}

async function drainOnEmpty(stage, count) {
  const filler = await stage.host(OURS);
  return drainOf(stage, filler, count);
}

/** Until the session is ended. */
async function readSlowly(session, { readMs, firstMs }) {
  let untilMs = firstMs;
  try {
    for (;;) {
      const startedNs = nowNs();
      await session.query("begin isolation level repeatable read");
      await session.query("declare slowly cursor for select * from everbeat.tasks");
      while (msSince(startedNs) < untilMs) {
        await session.query("fetch 100 from slowly");
        await pause(50);
      }
      await session.query("commit");
      untilMs = readMs;
    }
  } catch {
    // The end of the run.
  }
}
