/** What the attempts of the dead and the loop of a dead process said last, for their post-mortems. */
import { readLastProgress, readLastStack } from "../sql/progress.ts";
import type { LastSigns } from "./post-mortems.ts";

export const LAST_SIGNS: LastSigns = {
  async ofTasks(tx, claims) {
    const rows = await readLastProgress(tx, claims);
    return new Map(
      rows.map(({ claimId, phase, log }) => [
        claimId,
        { phase: phase ?? undefined, log: log?.map(({ level, text }) => `${level} ${text}`) },
      ]),
    );
  },
  async stackOf(tx, replicaId) {
    const blocked = await readLastStack(tx, replicaId);
    // A loop that turned again did not kill anybody.
    return blocked?.endedAt === null ? blocked.stack?.split("\n") : undefined;
  },
};
