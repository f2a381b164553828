/** Putting tasks in: in bulk, and one by one from callers that each wait for their answer. */

const POSTGRES_SYSTEMS = ["everbeat", "graphile-worker/tuned", "pg-boss/tuned", "bullmq-postgres/tuned"];

export const bulkEnqueue = {
  name: "bulk-enqueue",
  title: "Bulk enqueue, batches of 1,000 from two callers of one process",
  unit: "tasks/s",
  cases: [...POSTGRES_SYSTEMS, "bullmq/tuned"],
  rounds: { full: 5, short: 2 },
  async run(stage, system) {
    const count = stage.amount(60_000, 20_000);
    await stage.postgres.checkpoint();
    const host = await stage.host(system);
    // The first batch makes connections and plans.
    await host.tell("enqueueMany", { count: 2_000 });
    const ms = await host.tell("enqueueMany", { count });
    return { tasks: count, perSecond: (count * 1000) / ms };
  },
};

export const singleEnqueue = {
  name: "single-enqueue",
  title: "Single enqueue, 1 caller and 16 callers of one process",
  unit: "tasks/s",
  cases: [...POSTGRES_SYSTEMS, "bullmq/tuned"],
  rounds: { full: 3, short: 1 },
  async run(stage, system) {
    const ms = stage.amount(3_000, 1_500);
    const host = await stage.host(system);
    await host.tell("enqueueFor", { ms: 200, callers: 16 });
    const one = await host.tell("enqueueFor", { ms, callers: 1 });
    const sixteen = await host.tell("enqueueFor", { ms, callers: 16 });
    return { perSecond1: (one.count * 1000) / one.ms, perSecond16: (sixteen.count * 1000) / sixteen.ms };
  },
};
