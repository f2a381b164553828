/**
 * The end of a process whose main thread is blocked, by its own heart. Written first, and ended only then: without it, the end would
 * be a crash of everything in its hands. While the database cannot be reached, self-fencing sees to it that the process does
 * not outlive its claims.
 */
import type { Store } from "../database/database.ts";
import { endBlockedReplica, readTimedOut } from "../sql/blocked-loops.ts";
import type { ReplicaId } from "../task/ids.ts";
import type { OpenDeadline } from "./deadlines.ts";
import type { BlockageSight } from "./loop-watch.ts";
import { timedOutOutcome } from "./timed-out.ts";

export async function endBlocked(
  { replicaId, hostname, store }: { replicaId: ReplicaId; hostname: string; store: Store },
  { blockedMs, stack }: BlockageSight,
  late: readonly OpenDeadline[],
): Promise<void> {
  const running = late.length === 0 ? [] : await readTimedOut(store, replicaId, late);
  const deadlineOf = new Map(late.map((deadline) => [deadline.claimId, deadline]));
  const outcomes = running.flatMap((claim) => {
    const deadline = deadlineOf.get(claim.claimId);
    return deadline ? [timedOutOutcome({ claim, deadline, replicaId, stack, random: Math.random() })] : [];
  });
  // Where a task is known to be at fault, the others are not.
  const isCharged = late.length === 0;
  const death = {
    hostname,
    because: "loop-blocked",
    blockedForMs: Math.round(blockedMs),
    isCharged,
    ...(stack === undefined ? {} : { stack }),
  } as const;
  await endBlockedReplica(store, replicaId, { outcomes, death });
  process.kill(process.pid, "SIGKILL");
}
