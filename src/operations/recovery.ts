/** Operations on recovery: what it is at, and what is put right by hand. */
import * as z from "zod";
import type { Everbeat, StaleQuery, StaleTask } from "../index.ts";
import { EXIT_RULES } from "../recovery/exit-options.ts";
import { PartlyRecoveredError } from "../recovery/partly-recovered.ts";
import { CONFIRM_RULES, STALE_RULES } from "../recovery/recovery-orders.ts";
import { toErrorRecord } from "../task/error-record.ts";
import type { TaskId } from "../task/ids.ts";
import { HalfRecoveredError } from "./half-recovered.ts";
import { between, operation } from "./operation.ts";
import { listening, settings } from "./rows.ts";
import { claimId, count, duration, instant, listOf, milliseconds, optionsBy, uuid } from "./schemas.ts";

const staleTask = z.strictObject({
  id: uuid,
  claimId,
  name: z.string(),
  queue: z.string(),
  state: z.enum(["claimed", "running"]),
  attempt: count,
  crashes: count,
  owner: uuid,
  hostname: z.string().nullable(),
  ownerStatus: z.enum(["online", "draining", "offline", "dead", "missing"]),
  /** Exact to the microsecond, hence text. */
  beatAt: z.string().nullable(),
  silentForMs: milliseconds.nullable(),
  isOwnerDead: z.boolean(),
});

const query = optionsBy(STALE_RULES, {
  after: duration,
  state: z.enum(["claimed", "running"]),
  name: z.string(),
  queue: z.string(),
  replicaId: z.string(),
  ids: listOf(z.string()),
});

/** Null: the answer is sure. Else nobody has listened since then, and so many of the tasks that were asked for are held by workers that are unheard. */
const unsure = z.strictObject({ since: instant, held: count }).nullable();

export const recoveryState = operation({
  name: "recovery.state",
  role: "viewer",
  changes: false,
  description: "who listens for silence and when it last did, what is held, and the settings by which recovery acts",
  input: z.strictObject({}),
  answer: z.strictObject({
    listening: listening.nullable(),
    settings,
    /** Of every replica that could sweep, the one that did last first. */
    fleet: listOf(z.strictObject({ replicaId: uuid, hostname: z.string(), hasSwept: z.boolean(), settings })),
  }),
  run: async ({ recovery }) => ({
    listening: (await recovery.listening()) ?? null,
    settings: await recovery.settings(),
    fleet: await recovery.fleetSettings(),
  }),
});

export const recoveryStale = operation({
  name: "recovery.stale",
  role: "viewer",
  changes: false,
  description: "find tasks whose worker is dead, gone or silent",
  input: z.strictObject(query),
  answer: z.strictObject({
    tasks: listOf(staleTask),
    /** Nobody has listened since then, so that nobody knows which workers are alive. */
    unheardSince: instant.nullable(),
    unsure,
  }),
  async run(everbeat, { state, ...rest }) {
    const tasks: StaleTask[] = [];
    for (const each of state === undefined ? STATES : [state])
      tasks.push(...(await everbeat.recovery.findStale({ ...rest, state: each })));
    const unheard = (await everbeat.replicas()).find((replica) => replica.unheardSince !== null);
    const unsure = await everbeat.recovery.unsure({ ...rest, state });
    return { tasks, unheardSince: unheard?.unheardSince ?? null, unsure };
  },
});

export const recoveryRecover = operation({
  name: "recovery.recover",
  role: "operator",
  changes: true,
  description: "fail stale running tasks and requeue stale claimed ones, by hand",
  input: z.strictObject({ ...query, dryRun: z.boolean().optional() }),
  answer: z.strictObject({
    dryRun: z.boolean(),
    failed: listOf(staleTask),
    requeued: listOf(staleTask),
    /** Those that the database would not have changed. */
    refused: listOf(z.strictObject({ id: uuid, message: z.string() })),
    unsure,
  }),
  async run({ recovery }, { dryRun = false, state, ...rest }, context) {
    const refused: Refused[] = [];
    const reached = between(context);
    const recoverThose = async (each: Recoverable) =>
      state === undefined || state === each ? recoverAll(recovery, { ...rest, state: each }, { dryRun, refused }) : [];
    reached({ done: 0, of: 2, step: "running" });
    const failed = await recoverThose("running");
    try {
      reached({ done: 1, of: 2, step: "claimed" });
      const requeued = await recoverThose("claimed");
      return { dryRun, failed, requeued, refused, unsure: await recovery.unsure({ ...rest, state }) };
    } catch (error) {
      throw dryRun || failed.length === 0 ? error : new HalfRecoveredError(idsOf(failed), error);
    }
  },
});

export const recoveryConfirm = operation({
  name: "recovery.confirm",
  role: "operator",
  changes: true,
  description: "say that those on whose account recovery is held are dead indeed, of one source of silence or of all",
  input: z.strictObject(optionsBy(CONFIRM_RULES, { source: z.string() })),
  answer: z.strictObject({
    /** The sources that are held, of which it was said. */
    confirmed: listOf(z.string()),
    /** Those that are held besides, of which nothing was said. */
    others: listOf(z.string()),
  }),
  async run({ recovery }, of) {
    const confirmed = await recovery.confirmDeaths(of);
    const held = ((await recovery.listening())?.holds ?? []).map(({ source }) => source);
    return { confirmed, others: held.filter((source) => !confirmed.includes(source)).sort() };
  },
});

export const recoveryReportExit = operation({
  name: "recovery.report-exit",
  role: "operator",
  changes: true,
  description: "say that a worker's process has ended, as whoever started it has seen: its tasks are recovered at once",
  input: z.strictObject({
    replicaId: uuid,
    ...optionsBy(EXIT_RULES, {
      exitCode: z.int().nullable(),
      signal: z.string().nullable(),
      wasAsked: z.boolean(),
      sharedWith: z.array(z.string()),
      /** The memory of the cgroup that it shared with whoever saw it end, in bytes. */
      group: z.strictObject({ used: z.int(), limit: z.int(), kills: z.int(), grewMost: z.boolean().optional() }),
    }),
  }),
  answer: z.strictObject({
    verdict: z.enum(["dead", "not-alive", "session-held", "locked"]),
    recovered: listOf(
      z.strictObject({
        taskId: uuid,
        claimId,
        name: z.string(),
        attempt: count,
        action: z.enum(["released", "cancelled", "failed", "quarantined", "retried"]),
      }),
    ),
  }),
  run: ({ recovery }, { replicaId, ...exit }) => recovery.reportExit(replicaId, exit),
});

const STATES = ["running", "claimed"] as const;
type Recoverable = (typeof STATES)[number];

export interface Refused {
  readonly id: string;
  readonly message: string;
}

function idsOf(tasks: readonly StaleTask[]): TaskId[] {
  return tasks.map(({ id }) => id);
}

/** Those that are stale, and of them the ones that were still so when they were recovered. */
async function recoverAll(
  recovery: Everbeat["recovery"],
  query: StaleQuery & { readonly state: Recoverable },
  { dryRun, refused }: { readonly dryRun: boolean; readonly refused: Refused[] },
): Promise<readonly StaleTask[]> {
  const stale = await recovery.findStale(query);
  if (dryRun || stale.length === 0) return stale;
  const those = { ...query, ids: idsOf(stale) };
  const recovering = query.state === "running" ? recovery.failStaleRunning(those) : recovery.requeueStaleClaimed(those);
  const { ids } = await recovering.catch((error: unknown) => {
    if (!(error instanceof PartlyRecoveredError)) throw error;
    refused.push(...error.refused.map((one) => ({ id: one.id, message: toErrorRecord(one.error).message })));
    return error;
  });
  return stale.filter((task) => ids.includes(task.id));
}
