/**
 * The end of a process whose main thread is blocked, by its own heart. Written first, and ended only then: without it, the end would
 * be a crash of everything in its hands. While the database cannot be reached, self-fencing sees to it that the process does
 * not outlive its claims.
 */
import { writeSync } from "node:fs";
import { formatDuration } from "../config/duration.ts";
import { unicodeEscape, withoutCommands } from "../control-characters.ts";
import type { Store } from "../database/database.ts";
import { endBlockedReplica, readTimedOut } from "../sql/blocked-loops.ts";
import type { TimedOutAttempt } from "../task/death.ts";
import type { ReplicaId } from "../task/ids.ts";
import { firstFrame } from "../task/stack-frames.ts";
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
  const timedOut = running.map(({ claimId, taskId, name }) => ({ claimId, taskId, name }));
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
    ...(timedOut.length === 0 ? {} : { timedOut }),
  } as const;
  await endBlockedReplica(store, replicaId, { outcomes, death });
  tell(endWords({ replicaId, blockedMs, stack, timedOut }));
  process.kill(process.pid, "SIGKILL");
}

/** One line for the log of the process that ends. */
export function endWords(end: {
  replicaId: ReplicaId;
  blockedMs: number;
  stack: string | undefined;
  timedOut: readonly TimedOutAttempt[];
}): string {
  const { replicaId, blockedMs, stack, timedOut } = end;
  const where = stack === undefined ? "" : `, in: ${firstFrame(stack)}`;
  const whose = timedOut.map(({ taskId, name }) => `task ${taskId} (${name})`).join(", ");
  const past = whose === "" ? "" : `, past the timeout of ${whose}`;
  return withoutCommands(
    `everbeat: the event loop of replica ${replicaId} has been blocked for ${formatDuration(blockedMs)}${past}${where}. Its heart ends this process.`,
    unicodeEscape,
  );
}

/** The main thread cannot log any more. */
function tell(line: string): void {
  try {
    writeSync(2, `${line}\n`);
  } catch {
    // Nobody reads it.
  }
}
