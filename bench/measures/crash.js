/** From SIGKILL of the process that runs a task until another process runs it again. */
import { setTimeout as pause } from "node:timers/promises";
import { msSince, nowNs } from "../process/clock.js";
import { percentile } from "../report/statistics.js";

const OURS = "everbeat";
/** A task that may be run again, as all tasks of the peers may. */
const CHANGES = { [OURS]: { task: { onCrash: "requeue" } } };

export const crash = {
  name: "crash",
  title: "SIGKILL to running again",
  unit: "ms",
  cases: [
    OURS,
    "graphile-worker/shipped",
    "pg-boss/shipped",
    "bullmq/shipped",
    "bullmq-postgres/shipped",
    "pg-boss/vigilant",
    "bullmq/vigilant",
  ],
  rounds: { full: 1, short: 1 },
  /** They only wait; one after the other it would take as many minutes. */
  isTogether: true,
  async run(stage, system) {
    const limitMs = stage.isShort ? 20_000 : 70_000;
    if (system !== OURS) return killOnce(stage, system, limitMs);
    const each = [];
    for (let n = 0; n < (stage.isShort ? 3 : 7); n++)
      each.push(await stage.apart((one) => killOnce(one, OURS, limitMs)));
    const ms = each.map((one) => one.ms);
    return { ms: percentile(ms, 0.5), fastestMs: Math.min(...ms), slowestMs: Math.max(...ms), kills: ms.length };
  },
};

/** `isBound`: nobody had taken it up when the time was over. */
async function killOnce(stage, system, limitMs) {
  const changes = CHANGES[system];
  const first = await stage.host(system, changes);
  await first.tell("work", { handler: "hold" });
  const caller = await stage.host(system, changes);
  await caller.tell("enqueueMany", { count: 1 });
  if (!(await isStarted(first, 30_000))) throw new Error("the task did not start");
  const second = await stage.host(system, changes);
  await second.tell("work", { handler: "hold" });
  // Long enough that each has settled into its rhythm.
  await pause(1_500 + Math.random() * 1_000);
  const killedNs = nowNs();
  await first.kill();
  const isAgain = await isStarted(second, limitMs);
  return isAgain ? { ms: msSince(killedNs, second.tally.firstNs) } : { ms: limitMs, isBound: true };
}

async function isStarted(host, withinMs) {
  const startedNs = nowNs();
  while (host.tally.started === 0) {
    if (msSince(startedNs) > withinMs) return false;
    await pause(20);
  }
  return true;
}
