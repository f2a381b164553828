/** Tasks that take a millisecond, a hundred at once in each of four processes. */
import { drain, fill } from "../run/drain.js";

export const millisecondTasks = {
  name: "millisecond",
  title: "Tasks of 1 ms, concurrency 100, four worker processes",
  unit: "tasks/s",
  cases: ["everbeat/repeatable", "everbeat", "graphile-worker/tuned", "pg-boss/tuned", "bullmq/tuned"],
  rounds: { full: 5, short: 1 },
  async run(stage, system) {
    const count = Math.round(stage.amount(80_000, 20_000) * (system.startsWith("bullmq") ? 0.5 : 1));
    await stage.postgres.checkpoint();
    const { host } = await fill(stage, system, { count });
    await stage.analyse();
    const work = { handler: "millisecond", concurrency: 100 };
    const { ms } = await drain(stage, system, { processes: 4, count, work, asker: host });
    return { tasks: count, perSecond: (count * 1000) / ms };
  },
};
