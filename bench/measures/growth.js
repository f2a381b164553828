/** Whether a drain stays as fast while tables grow and others hold old snapshots: each beside a drain on empty tables. */
import { setTimeout as pause } from "node:timers/promises";
import { msSince, nowNs } from "../process/clock.js";
import { drain } from "../run/drain.js";
import { loadEnded } from "../run/load.js";

const OURS = "everbeat";

/** Each prepares its database, and may say for how long tasks go through before it counts. */
const SITUATIONS = {
  async pending(stage, filler) {
    await filler.tell("enqueueMany", { count: stage.amount(1_000_000, 200_000) });
  },
  async ended(stage) {
    await loadEnded(await stage.database(), stage.amount(5_000_000, 400_000));
  },
  /** It has read, so that it has a snapshot, and does nothing since: a forgotten console, a lost connection. */
  async "idle-in-transaction"(stage) {
    const session = await stage.session();
    await session.query("begin isolation level repeatable read");
    await session.query("select count(*) from everbeat.tasks");
    return stage.amount(90_000, 10_000);
  },
  /** Reports that read all tasks, slowly, half a minute each. */
  async readers(stage) {
    const readMs = stage.amount(30_000, 5_000);
    for (let n = 0; n < 4; n++) void readSlowly(await stage.session(), { readMs, firstMs: (readMs * (n + 1)) / 4 });
    return stage.amount(30_000, 5_000);
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
    const churnMs = await SITUATIONS[situation](stage, filler);
    await stage.analyse();
    const startedNs = nowNs();
    let tasksBefore = 0;
    while (churnMs !== undefined && msSince(startedNs) < churnMs) {
      await drainOf(stage, filler, count);
      tasksBefore += count;
    }
    const samples = [];
    for (let pair = 0; pair < (stage.isShort ? 2 : 3); pair++) {
      const emptyPerSecond = await stage.apart((empty) => drainOnEmpty(empty, count));
      samples.push({ perSecond: await drainOf(stage, filler, count), emptyPerSecond, tasksBefore });
      tasksBefore += count;
    }
    return samples;
  },
};

/** Until so many were handled, in all cases alike, since where a million are pending there is no end to wait for. */
async function drainOf(stage, filler, count) {
  await filler.tell("enqueueMany", { count });
  const { ms, hosts } = await drain(stage, OURS, { count, work: { handler: "nothing" }, leavesMore: true });
  await Promise.all(hosts.map((host) => host.tell("close")));
  await Promise.all(hosts.map((host) => host.kill()));
  return (count * 1000) / ms;
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
