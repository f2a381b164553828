/** Operations on queues. */
import * as z from "zod";
import type { Everbeat } from "../everbeat.ts";
import { QUEUE_RULES } from "../queue/queue-orders.ts";
import { isName } from "../task/settings.ts";
import { operation } from "./operation.ts";
import { queueRow } from "./rows.ts";
import { duration, listOf, optionsBy, ruled } from "./schemas.ts";

const named = { name: ruled(isName, z.string()) };
/** As it is after the change. */
const changed = z.strictObject({ queue: queueRow.nullable() });

export const queuesList = operation({
  name: "queues.list",
  role: "viewer",
  changes: false,
  description: "the queues that have settings or were in use lately, and how much is in each",
  input: z.strictObject({}),
  answer: z.strictObject({ queues: listOf(queueRow) }),
  run: async ({ queues }) => ({ queues: await queues.list() }),
});

export const queuesPause = operation({
  name: "queues.pause",
  role: "operator",
  changes: true,
  description: "start no more tasks of this queue; what is running goes on",
  input: z.strictObject(named),
  answer: changed,
  async run({ queues }, { name }) {
    await queues.pause(name);
    return found(queues, name);
  },
});

export const queuesResume = operation({
  name: "queues.resume",
  role: "operator",
  changes: true,
  description: "start tasks of this queue again",
  input: z.strictObject(named),
  answer: changed,
  async run({ queues }, { name }) {
    await queues.resume(name);
    return found(queues, name);
  },
});

export const queuesSet = operation({
  name: "queues.set",
  role: "operator",
  changes: true,
  description: "limit a queue, over all replicas together; null takes a limit away",
  input: z.strictObject({
    ...named,
    ...optionsBy(QUEUE_RULES, {
      concurrency: z.int().nullable(),
      rateLimit: z.strictObject({ limit: z.int(), per: duration }).nullable(),
    }),
  }),
  answer: changed,
  async run({ queues }, { name, ...limits }) {
    await queues.set(name, limits);
    return found(queues, name);
  },
});

async function found(queues: Everbeat["queues"], name: string) {
  return { queue: (await queues.list()).find((queue) => queue.name === name) ?? null };
}
