/** What listening costs a large fleet with a long record, and how long the recovery of 10,000 tasks takes. */
import { setTimeout as pause } from "node:timers/promises";
import { msSince, nowNs } from "../process/clock.js";
import { percentile } from "../report/statistics.js";
import { declareDead, hasTasks, holdSessions, loadDeadReplica, loadEnded, loadReplicas } from "../run/load.js";
import { until } from "../run/stage.js";

const OURS = "everbeat";

export const sweep = {
  name: "sweep",
  title: "Sweep with 1,000 replicas, 100,000 running, 1,000,000 ended",
  unit: "ms",
  cases: [OURS],
  rounds: { full: 1, short: 1 },
  async run(stage) {
    const database = await stage.database();
    const asker = await stage.host(OURS);
    const replicas = stage.amount(1_000, 1_000);
    await loadEnded(database, stage.amount(1_000_000, 200_000));
    await loadReplicas(database, { replicas, tasksEach: 100 });
    await holdSessions(await stage.session());
    const worker = await stage.host(OURS);
    await worker.tell("work", { handler: "nothing" });
    await pause(1_000);
    const sweeps = await listenTo(asker, stage.amount(40_000, 10_000));
    const tasks = stage.amount(10_000, 10_000);
    const recoveries = [];
    for (let n = 0; n < 3; n++) {
      const dead = await loadDeadReplica(database, tasks);
      const startedNs = nowNs();
      await declareDead(database, dead);
      await until(async () => !(await hasTasks(database, dead)), {
        everyMs: 10,
        withinMs: 60_000,
        what: "the recovery of a dead replica's tasks",
      });
      recoveries.push(msSince(startedNs));
    }
    return {
      sweeps: sweeps.length,
      sweepP50: percentile(sweeps, 0.5),
      sweepP99: percentile(sweeps, 0.99),
      recoveredTasks: tasks,
      /** From the verdict on, with the wait for the next sweep. */
      recoveryMs: percentile(recoveries, 0.5),
      worstRecoveryMs: Math.max(...recoveries),
    };
  },
};

/** Every sweep notes how long it took. */
async function listenTo(asker, ms) {
  const startedNs = nowNs();
  const tookMs = [];
  let last;
  while (msSince(startedNs) < ms) {
    const { sweptAt, sweepMs } = await asker.tell("ask", { question: "listening" });
    if (String(sweptAt) !== last && sweepMs !== null) tookMs.push(sweepMs);
    last = String(sweptAt);
    await pause(60);
  }
  return tookMs;
}
