/**
 * Attempts that are alive and do not get on, as a source of silence: how long each has said nothing of itself. By its definition it is warned of
 * (an alert), or ended as a failure of its own. The worker that runs it is well, so nobody needs to be recovered.
 */
import type { Database } from "../../database/database.ts";
import { isAboutTheValues } from "../../database/transient.ts";
import type { Events } from "../../events.ts";
import type { Outcome } from "../../sql/outcomes.ts";
import { endStalled, findStalled, raiseStallAlerts, type StallAlert, type StalledClaim } from "../../sql/stalls.ts";
import { storedSettings } from "../../task/stored-settings.ts";
import { STALL_DOUBT, stallLimits } from "../limits.ts";
import type { PassedBy } from "../passed-by.ts";
import type { Dead, Doubtful, Policy, Source } from "../source.ts";
import { type AfterStall, afterStall, type OnStall, stallError } from "../stall.ts";

interface Stalled {
  readonly claim: StalledClaim;
  readonly onStall: OnStall;
  /** What becomes of its task, if it is ended. */
  readonly next: AfterStall;
}

export class StallSource implements Source<Stalled> {
  readonly doing = "looking for stalls";
  readonly passedBy: PassedBy;
  readonly policies: readonly [Policy<Stalled>];
  readonly #database: Database;
  readonly #events: Events;

  constructor(parts: { database: Database; events: Events; passedBy: PassedBy }) {
    this.#database = parts.database;
    this.#events = parts.events;
    this.passedBy = parts.passedBy;
    this.policies = [
      {
        ...{ doing: "the end of", isOneByOne: false },
        limitsOf: ({ context: { claim, onStall } }) => stallLimits({ ...claim, onStall }),
        act: (dead) => this.#end(dead),
        tell: (done) => {
          for (const { context } of done) this.#emit(context, context.next.kind === "again" ? "retried" : "failed");
        },
      },
    ];
  }

  async findDoubtful(): Promise<Doubtful<Stalled>[]> {
    return (await findStalled(this.#database, STALL_DOUBT)).map((claim) => {
      const { onStall = "alert", retry } = storedSettings(claim.settings);
      return {
        subject: `task ${claim.taskId} (${claim.name}), which has stalled,`,
        silentForMs: claim.quietForMs,
        context: { claim, onStall, next: afterStall(claim.failures, { onStall, retry }, Math.random()) },
      };
    });
  }

  /** Once for each stall. The alert is resolved by whoever ends the attempt, and by a sweep when the task gets on again (ended-alerts.ts). */
  async warn(stale: readonly Doubtful<Stalled>[]): Promise<void> {
    const raised = new Set(
      await this.passedBy.inHalves(
        stale,
        ({ subject }) => `the alert about ${subject}`,
        (part) => raiseStallAlerts(this.#database, part.map(alertOf)),
        isAboutTheValues,
      ),
    );
    for (const { context } of stale) if (raised.has(context.claim.taskId)) this.#emit(context, "alerted");
  }

  /** Each only if it is still as quiet: its row is locked first, and its progress looked at after that (see end_stalled). */
  async #end(dead: readonly Dead<Stalled>[]): Promise<readonly Dead<Stalled>[]> {
    const ended = new Set(
      await endStalled(
        this.#database,
        dead.map(({ context, verdict }) => ({ outcome: outcomeOfStall(context), stalledAfterMs: verdict.beyondMs })),
      ),
    );
    return dead.filter(({ context }) => ended.has(context.claim.claimId));
  }

  #emit({ claim }: Stalled, action: "alerted" | "failed" | "retried"): void {
    const { taskId, claimId, name, attempt, replicaId, quietForMs, phase } = claim;
    this.#events.emit("task.stalled", { taskId, claimId, name, attempt, replicaId, quietForMs, phase, action });
  }
}

function alertOf({ context: { claim } }: Doubtful<Stalled>): StallAlert {
  const { taskId, claimId, replicaId, name } = claim;
  const error = stallError(claim);
  const message = `Task ${taskId} (${name}) is stalled. ${error.message}`;
  return { subject: taskId, message, part: claimId, details: { ...error, claimId, replicaId } };
}

function outcomeOfStall({ claim, next }: Stalled): Outcome {
  const { claimId, taskId, replicaId } = claim;
  const base = {
    claim: claimId,
    task: taskId,
    replica: replicaId,
    outcome: "failed",
    error: stallError(claim),
  } as const;
  if (next.kind === "fail") return { ...base, to: "failed", failures: next.failures };
  return { ...base, to: "pending", failures: next.failures, delayMs: next.delayMs };
}
