/** A worker's runners, and who is told what becomes of them. */
import { hostname } from "node:os";
import { heartPlanOf } from "../heart/heart-plan.ts";
import { PostMortems } from "../recovery/post-mortems.ts";
import type { RunnerKind } from "../runner/runner-death.ts";
import { Runners } from "../runner/runners.ts";
import { noteRunners } from "../sql/runners.ts";
import type { CompanyWatch } from "./company.ts";
import { onRunnerDeath } from "./on-runner-death.ts";
import type { Reporting } from "./reports.ts";
import { createRunnerBlockages } from "./runner-blockages.ts";
import type { WorkerParts } from "./worker.ts";

const ALERT = "runners-suspended";

export function createWorkerRunners(
  parts: WorkerParts,
  { onRoom, flush, company }: { onRoom: () => void; company: CompanyWatch } & Pick<Reporting, "flush">,
): Runners {
  const { database, events, alerts, replica, recovery, settings, tasks, resultLimitBytes, runnersHealth } = parts;
  const postMortems = new PostMortems({ database, events });
  const { stopWithinMs, promise } = heartPlanOf(recovery);
  // Each replica has runners of its own. It may have another id when it resolves what it has raised.
  const subjects = new Map<RunnerKind, string>();
  const resolve = (kind: RunnerKind) => {
    const subject = subjects.get(kind);
    if (subject !== undefined) alerts.resolve(ALERT, subject);
    subjects.delete(kind);
  };
  return new Runners({
    ...{ tasks, recovery, replica, resultLimitBytes, settings: settings.runners, schema: database.schema },
    abortGraceMs: settings.abortGraceMs,
    // Their end takes a moment too, and must come in time.
    cutOffGraceMs: Math.min(...Object.values(stopWithinMs)) / 4,
    leaseMs: promise.promiseMs,
    blockages: createRunnerBlockages({ database, events, replica, hostname: hostname() }),
    carry: (signs) => replica.carry(signs),
    note: (ended) => noteRunners(database, replica.id, ended),
    onStarted: ({ id, kind, pid }) => {
      events.emit("runner.started", { runnerId: id, replicaId: replica.id, kind, pid });
    },
    onDropped: (lines, reason) =>
      runnersHealth.noteDroppedElsewhere(lines, `a runner could not pass on what it printed: ${reason}`),
    onDeath(death) {
      const others = company.companyOf(death, performance.now());
      onRunnerDeath({ events, replica, postMortems, reporting: { flush } }, death, others);
    },
    onSuspended(kind, { failures, pauseMs, message }) {
      events.emit("runners.suspended", { replicaId: replica.id, kind, failures, pauseMs, message });
      const what = `No ${kind} could be started on ${hostname()} for ${failures} times; its tasks are left to others: ${message}`;
      const details = { replicaId: replica.id, failures, message };
      const subject = subjects.get(kind) ?? `${kind} of replica ${replica.id}`;
      subjects.set(kind, subject);
      void alerts.raise({ kind: ALERT, subject, message: what, details });
      onRoom();
    },
    onResumed(kind) {
      events.emit("runners.resumed", { replicaId: replica.id, kind });
      resolve(kind);
      onRoom();
    },
  });
}
