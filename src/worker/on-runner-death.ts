/** What follows the end of a runner, besides what becomes of the attempt that it had. Everything that is known of it comes here. */
import type { PostMortems } from "../recovery/post-mortems.ts";
import { isCrash, type RunnerDeath } from "../runner/runner-death.ts";
import type { Company } from "./company.ts";
import type { Reporting } from "./reports.ts";
import { runnerEvidence } from "./runner-evidence.ts";
import type { WorkerParts } from "./worker.ts";

export function onRunnerDeath(
  parts: Pick<WorkerParts, "events" | "replica"> & { postMortems: PostMortems; reporting: Pick<Reporting, "flush"> },
  death: RunnerDeath,
  company: Company,
): void {
  const { events, replica } = parts;
  const { runnerId, kind, pid, because, exitCode, signal, message, attempts } = death;
  events.emit("runner.ended", {
    ...{ runnerId, replicaId: replica.id, kind, pid, because, exitCode, signal, message },
    claimId: attempts[0]?.claimId,
  });
  if (!isCrash(death)) return;
  void writePostMortem(parts, death, company);
}

/** What its tasks said last is a part of it, and on record by then. */
async function writePostMortem(
  { replica, postMortems, reporting }: Parameters<typeof onRunnerDeath>[0],
  death: RunnerDeath,
  company: Company,
): Promise<void> {
  const { runnerId, hostname, attempts } = death;
  const subject = { runnerId, replicaId: replica.id, hostname };
  const ofTasks = attempts.map(({ taskId, claimId, name }) => ({ ...subject, taskId, claimId, name }));
  await Promise.all(attempts.map(({ claimId }) => reporting.flush(claimId)));
  await postMortems.writeRunner(ofTasks.length > 0 ? ofTasks : [subject], runnerEvidence(death, company));
}
