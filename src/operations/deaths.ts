/** Operations on what deaths have left behind: post-mortems, tasks to be reviewed, tasks in quarantine. */
import * as z from "zod";
import { isSubject, POST_MORTEM_KINDS, POST_MORTEM_RULES } from "../recovery/post-mortem-query.ts";
import { CAUSES } from "../recovery/probable-cause.ts";
import { QUARANTINE_RULES } from "../recovery/quarantine.ts";
import { isReviewNote, REVIEW_RULES } from "../recovery/review.ts";
import { operation } from "./operation.ts";
import { claimId, count, errorRecord, instant, listOf, optionsBy, ruled, taskId, uuid } from "./schemas.ts";

const postMortem = z.strictObject({
  id: z.string().regex(/^\d+$/),
  kind: z.enum(POST_MORTEM_KINDS),
  replicaId: uuid.nullable(),
  runnerId: uuid.nullable(),
  taskId: uuid.nullable(),
  claimId: claimId.nullable(),
  name: z.string().nullable(),
  hostname: z.string().nullable(),
  happenedAt: instant,
  cause: z.string(),
  sentence: z.string(),
  evidence: listOf(z.string()),
});
const postMortems = z.strictObject({ now: instant, postMortems: listOf(postMortem) });

/** What both kinds of failed tasks have. */
const failed = {
  id: uuid,
  name: z.string(),
  queue: z.string(),
  attempt: count,
  crashes: count,
  endedAt: instant,
  error: errorRecord,
};
const filter = { name: z.string(), queue: z.string(), ids: listOf(z.string()), limit: z.int() };

export const postMortemsList = operation({
  name: "post-mortems.list",
  role: "viewer",
  changes: false,
  description: "what workers, runners and attempts probably died of, the latest first",
  input: z.strictObject(
    optionsBy(POST_MORTEM_RULES, { kind: z.enum(POST_MORTEM_KINDS), cause: z.enum(CAUSES), limit: z.int() }),
  ),
  answer: postMortems,
  async run(everbeat, query) {
    const found = await everbeat.recovery.postMortems(query);
    return { now: await everbeat.now(), postMortems: found };
  },
});

export const postMortemsShow = operation({
  name: "post-mortems.show",
  role: "viewer",
  changes: false,
  description: "what one replica, runner or task probably died of, with the evidence: all there are of it",
  input: z.strictObject({
    /** The number of a post-mortem, or the id of what it is about. */
    of: ruled(isSubject, z.string()),
  }),
  answer: postMortems,
  async run(everbeat, { of }) {
    const found = await everbeat.recovery.postMortems({ of });
    return { now: await everbeat.now(), postMortems: found };
  },
});

export const reviewList = operation({
  name: "review.list",
  role: "viewer",
  changes: false,
  description: "tasks that failed because their worker or runner died, and that nobody has reviewed since",
  input: z.strictObject(optionsBy(REVIEW_RULES, { ...filter, all: z.boolean() })),
  answer: z.strictObject({
    tasks: listOf(
      z.strictObject({
        ...failed,
        replicaId: uuid.nullable(),
        startedAt: instant.nullable(),
        reviewedAt: instant.nullable(),
        note: z.string().nullable(),
      }),
    ),
  }),
  run: async ({ recovery }, query) => ({ tasks: await recovery.review.list(query) }),
});

export const reviewMark = operation({
  name: "review.mark",
  role: "operator",
  changes: true,
  description: "take tasks off the list for review: somebody has looked (`tasks.retry` runs one again)",
  input: z.strictObject({ ids: z.array(taskId).min(1).readonly(), note: ruled(isReviewNote, z.string()).optional() }),
  /** Those that were on the list, or had been. */
  answer: z.strictObject({ reviewed: listOf(uuid) }),
  run: async ({ recovery }, { ids, note }) => ({ reviewed: await recovery.review.done(ids, { note }) }),
});

export const quarantineList = operation({
  name: "quarantine.list",
  role: "viewer",
  changes: false,
  description: "tasks that are not tried again because they kill what runs them (`tasks.retry` runs one again)",
  input: z.strictObject(optionsBy(QUARANTINE_RULES, filter)),
  answer: z.strictObject({ tasks: listOf(z.strictObject({ ...failed, sentence: z.string().nullable() })) }),
  run: async ({ recovery }, query) => ({ tasks: await recovery.quarantine.list(query) }),
});
