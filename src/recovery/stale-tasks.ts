/** Tasks that may be recovered by hand: owner by owner, each by its own settings. */
import type { RecoverySettings } from "../config/recovery-options.ts";
import type { Database } from "../database/database.ts";
import { type OwnerSigns, readOwners, readTasksOf, type StaleFilter, type UnfinishedTask } from "../sql/stale-tasks.ts";
import type { ReplicaId } from "../task/ids.ts";
import { type OwnerByHand, ownerByHand } from "./by-hand.ts";

export interface StaleTask extends UnfinishedTask, Pick<OwnerSigns, "hostname" | "ownerStatus" | "beatAt"> {
  /** `silentForMs` is null where the owner has no heart; such an owner counts as silent for ever. */
  readonly silentForMs: OwnerSigns["silentForMs"];
  /** Whether the evidence says that the owner is dead, whatever `after` was given. */
  readonly isOwnerDead: boolean;
}

const STATES = ["claimed", "running"] as const;

/** Longest silence first. `settings`: for owners of which none are on record. */
export async function findStaleTasks(
  { database, settings }: { database: Database; settings: RecoverySettings },
  afterMs: number | undefined,
  filter: StaleFilter,
): Promise<StaleTask[]> {
  const judged = new Map<ReplicaId, { signs: OwnerSigns } & Record<(typeof STATES)[number], OwnerByHand>>();
  for (const signs of await readOwners(database, filter)) {
    const verdict = (state: "claimed" | "running") => ownerByHand(signs, state, signs.settings ?? settings, afterMs);
    judged.set(signs.owner, { signs, claimed: verdict("claimed"), running: verdict("running") });
  }
  const stale = [...judged].flatMap(([owner, verdicts]) =>
    STATES.filter((state) => verdicts[state].isStale).map((state) => ({ owner, state })),
  );
  if (stale.length === 0) return [];
  const tasks = (await readTasksOf(database, stale, filter)).flatMap((task): StaleTask[] => {
    const verdicts = judged.get(task.owner);
    if (!verdicts) return [];
    const { hostname, ownerStatus, silentForMs, beatAt } = verdicts.signs;
    return [{ ...task, hostname, ownerStatus, silentForMs, beatAt, isOwnerDead: verdicts[task.state].isDead }];
  });
  const silence = ({ silentForMs }: StaleTask) => silentForMs ?? Number.POSITIVE_INFINITY;
  return tasks.sort((a, b) => (silence(a) === silence(b) ? 0 : silence(b) - silence(a)));
}
