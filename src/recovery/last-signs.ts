/** What the attempts of the dead and the loop of a dead process said last, for their post-mortems. */
import { readLastProgress, readLastStack, readRunnerStacks } from "../sql/progress.ts";
import type { ClaimId } from "../task/ids.ts";
import type { LastSigns, TaskSigns } from "./post-mortems.ts";

export const LAST_SIGNS: LastSigns = {
  async ofTasks(tx, replicaId, claims) {
    const signs = new Map<ClaimId, TaskSigns>();
    for (const { claimId, phase, log } of await readLastProgress(tx, claims))
      signs.set(claimId, { phase: phase ?? undefined, log: log?.map(({ level, text }) => `${level} ${text}`) });
    for (const { claimId, stack, isThread } of await readRunnerStacks(tx, replicaId, claims))
      signs.set(claimId, { ...signs.get(claimId), stack, isThread });
    return signs;
  },
  async stackOf(tx, replicaId) {
    const blocked = await readLastStack(tx, replicaId);
    // A loop that turned again did not kill anybody.
    return blocked?.endedAt === null ? (blocked.stack ?? undefined) : undefined;
  },
};
