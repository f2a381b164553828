/** Operations on those that run tasks: replicas, their runners and their machines. */
import * as z from "zod";
import type { RunnerRow } from "../index.ts";
import { operation } from "./operation.ts";
import { reliability, replica } from "./rows.ts";
import { count, instant, listOf, uuid } from "./schemas.ts";

const runner = z.strictObject({
  id: uuid,
  replicaId: uuid,
  kind: z.enum(["thread", "process"]),
  pid: z.int(),
  startedAt: instant,
  beatAt: instant,
  status: z.enum(["starting", "idle", "busy", "ending", "ended"]),
  vitals: z.record(z.string(), z.unknown()).nullable(),
  endedAt: instant.nullable(),
  exit: z
    .looseObject({
      code: z.int().nullable(),
      signal: z.string().nullable(),
      because: z.string(),
      message: z.string().exactOptional(),
    })
    .nullable(),
});

export const replicasList = operation({
  name: "replicas.list",
  role: "viewer",
  changes: false,
  description: "the worker processes: what they hold, how their hearts are doing, what they run tasks in",
  input: z.strictObject({
    /** Also those that have left and hold nothing. */
    all: z.boolean().optional(),
  }),
  answer: z.strictObject({
    now: instant,
    replicas: listOf(z.strictObject({ ...replica, runners: listOf(runner) })),
    replicasLeftOut: count,
  }),
  async run(everbeat, { all = false }) {
    const replicas = await everbeat.replicas();
    const shown = replicas.filter((row) => all || row.status !== "offline" || row.claimed + row.running > 0);
    const now = await everbeat.now();
    const runners = runnersThere(await everbeat.runners());
    return {
      now,
      replicas: shown.map((row) => ({ ...row, runners: runners.get(row.id) ?? [] })),
      replicasLeftOut: replicas.length - shown.length,
    };
  },
});

export const runnersList = operation({
  name: "runners.list",
  role: "viewer",
  changes: false,
  description: "the threads and processes that replicas run tasks in, and those that have ended of late",
  input: z.strictObject({}),
  answer: z.strictObject({ runners: listOf(runner) }),
  run: async (everbeat) => ({ runners: await everbeat.runners() }),
});

export const machinesList = operation({
  name: "machines.list",
  role: "viewer",
  changes: false,
  description: "the hosts that replicas run on: which are online, and how often their replicas died",
  input: z.strictObject({}),
  answer: z.strictObject({
    now: instant,
    machines: listOf(
      z.strictObject({
        id: z.string(),
        hostname: z.string(),
        isOnline: z.boolean(),
        unheardSince: instant.nullable(),
        replicas: count,
        online: count,
        running: count,
        lastSeenAt: instant.nullable(),
        reliability: reliability.nullable(),
      }),
    ),
  }),
  async run(everbeat) {
    const reliability = new Map((await everbeat.recovery.reliability()).map((each) => [each.machineId, each]));
    const machines = await everbeat.recovery.machines();
    const now = await everbeat.now();
    return {
      now,
      machines: machines.map((machine) => ({ ...machine, reliability: reliability.get(machine.id) ?? null })),
    };
  },
});

/** Those that have not ended, by replica. */
function runnersThere(runners: readonly RunnerRow[]): ReadonlyMap<string, readonly RunnerRow[]> {
  const found = new Map<string, RunnerRow[]>();
  for (const runner of runners) {
    if (runner.status === "ended") continue;
    found.set(runner.replicaId, [...(found.get(runner.replicaId) ?? []), runner]);
  }
  return found;
}
