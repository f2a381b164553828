/** What follows the end of a runner, besides what becomes of the attempt that it had. Everything that is known of it comes here. */
import type { RunnerDeath } from "../runner/runner-death.ts";
import type { WorkerParts } from "./worker.ts";

export function onRunnerDeath({ events, replica }: Pick<WorkerParts, "events" | "replica">, death: RunnerDeath): void {
  const { runnerId, kind, pid, because, exitCode, signal, message, attempts } = death;
  events.emit("runner.ended", {
    ...{ runnerId, replicaId: replica.id, kind, pid, because, exitCode, signal, message },
    claimId: attempts[0]?.claimId,
  });
}
