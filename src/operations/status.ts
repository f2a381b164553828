/** The fleet at a glance. */
import * as z from "zod";
import type { ReplicaWithHeart } from "../index.ts";
import { VERSION } from "../version.ts";
import { operation } from "./operation.ts";
import { alert, listening, queueRow, reliability, replica, settings, turn } from "./rows.ts";
import { count, instant, listOf, state } from "./schemas.ts";

/** One that died is news for this long; after that only if it still holds something. */
const NEWS_MS = 3_600_000;

export const status = operation({
  name: "status",
  role: "viewer",
  changes: false,
  description: "the fleet at a glance: tasks, queues, replicas, services, recovery",
  input: z.strictObject({
    /** Also replicas that have left and hold nothing. */
    all: z.boolean().optional(),
  }),
  answer: z.strictObject({
    /** Of Everbeat, in the process that answers. */
    version: z.string(),
    schema: z.string(),
    now: instant,
    counts: z.record(state, count),
    queues: listOf(queueRow),
    replicas: listOf(z.strictObject(replica)),
    replicasLeftOut: count,
    /** What runs once in the cluster. */
    services: listOf(turn),
    recovery: z.strictObject({
      listening: listening.nullable(),
      /** Those that are open. */
      alerts: listOf(alert),
      needingReview: count,
      quarantined: count,
      /** The machines whose processes die or fall silent often. */
      flapping: listOf(reliability),
      settings,
    }),
  }),
  async run(everbeat, { all = false }) {
    const now = await everbeat.now();
    const { recovery } = everbeat;
    const replicas = await everbeat.replicas();
    const shown = all ? replicas : replicas.filter((each) => isOfInterest(each, now));
    return {
      version: VERSION,
      schema: everbeat.database.schemaName,
      now,
      counts: await everbeat.tasks.counts(),
      queues: await everbeat.queues.list(),
      replicas: shown,
      replicasLeftOut: replicas.length - shown.length,
      services: (await everbeat.services()).cluster,
      recovery: {
        listening: (await recovery.listening()) ?? null,
        alerts: await everbeat.alerts.list({ open: true }),
        needingReview: await recovery.review.count(),
        quarantined: await recovery.quarantine.count(),
        flapping: (await recovery.reliability()).filter(({ isFlapping }) => isFlapping),
        settings: await recovery.settings(),
      },
    };
  },
});

function isOfInterest({ status, claimed, running, diedAt }: ReplicaWithHeart, now: Date): boolean {
  if (claimed + running > 0) return true;
  if (status === "dead") return diedAt !== null && now.getTime() - diedAt.getTime() < NEWS_MS;
  return status !== "offline";
}
