/** Whether anybody listens, for the commands that judge owners: while nobody does, nobody knows who of them is alive. */
import type { RecoverySettings } from "../config/recovery-options.ts";
import type { Everbeat } from "../everbeat.ts";
import { readClock } from "../sql/clock.ts";
import type { ReplicaRow } from "../sql/replicas.ts";
import type { ReplicaId } from "../task/ids.ts";
import { unheardWords } from "./times.ts";

export interface Unheard {
  /** Null while somebody listens. */
  readonly since: Date | null;
  readonly replicas: ReadonlySet<ReplicaId>;
  /** All that are on record. */
  readonly all: readonly ReplicaRow[];
  /** How many tasks those hold. */
  readonly held: number;
  readonly now: Date;
  /** Those by which recovery acts. */
  readonly settings: RecoverySettings;
}

export async function readUnheard(everbeat: Everbeat): Promise<Unheard> {
  const all = await everbeat.replicas();
  const rows = all.filter((row) => row.unheardSince !== null);
  return {
    since: rows[0]?.unheardSince ?? null,
    replicas: new Set(rows.map(({ id }) => id)),
    all,
    held: rows.reduce((sum, { claimed, running }) => sum + claimed + running, 0),
    now: await readClock(everbeat.database),
    settings: await everbeat.recovery.settings(),
  };
}

/** Undefined where the answer is sure. */
export function unsureWords({ since, held, now }: Unheard): string | undefined {
  if (since === null || held === 0) return undefined;
  const tasks = held === 1 ? "1 task is" : `${held} tasks are`;
  return `Nothing can be said for sure: ${unheardWords(since, now)}, and ${tasks} held by workers that are unheard.`;
}

/** What helps then. */
export const HOW_TO_BE_SURE = "No worker recovers tasks while nobody listens. Start one: everbeat start tasks.ts";
