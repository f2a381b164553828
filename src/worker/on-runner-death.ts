/** What follows the end of a runner, besides what becomes of the attempt that it had. Everything that is known of it comes here. */
import type { DeadRunner, PostMortems } from "../recovery/post-mortems.ts";
import type { RunnerDeath } from "../runner/runner-death.ts";
import type { Reporting } from "./reports.ts";
import { runnerEvidence } from "./runner-evidence.ts";
import type { WorkerParts } from "./worker.ts";

/** The others ended in good order, or were ended by us. */
const CRASHES: readonly RunnerDeath["because"][] = ["exited", "silent", "garbled"];

export function onRunnerDeath(
  parts: Pick<WorkerParts, "events" | "replica"> & { postMortems: PostMortems; reporting: Pick<Reporting, "flush"> },
  death: RunnerDeath,
): void {
  const { events, replica } = parts;
  const { runnerId, kind, pid, because, exitCode, signal, message, attempts } = death;
  events.emit("runner.ended", {
    ...{ runnerId, replicaId: replica.id, kind, pid, because, exitCode, signal, message },
    claimId: attempts[0]?.claimId,
  });
  if (!CRASHES.includes(because)) return;
  const { hostname } = death;
  const { taskId, claimId, name } = attempts[0] ?? {};
  const subject = { runnerId, replicaId: replica.id, hostname };
  const of = taskId && claimId && name ? { ...subject, taskId, claimId, name } : subject;
  void writePostMortem(parts, of, death);
}

/** What its task said last is a part of it, and on record by then. */
async function writePostMortem(
  { postMortems, reporting }: Parameters<typeof onRunnerDeath>[0],
  subject: DeadRunner,
  death: RunnerDeath,
): Promise<void> {
  if (subject.claimId) await reporting.flush(subject.claimId);
  await postMortems.writeRunner(subject, runnerEvidence(death));
}
