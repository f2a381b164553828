/** Looks for attempts that are alive and do not get on, and does with them what their definition says. A part of the sweep. */
import type { Database } from "../database/database.ts";
import type { Events } from "../events.ts";
import type { Outcome } from "../sql/outcomes.ts";
import { endStalled, findStalled, type StalledClaim, settleStallAlerts } from "../sql/stalls.ts";
import { type StallAction, stallError, stallOn } from "./stall.ts";

/** Stalls are a matter of seconds at least, so not every sweep needs to look for them. */
const AT_MOST_EVERY_MS = 1_000;

interface Judged {
  readonly stalled: StalledClaim;
  readonly action: StallAction;
}

export class StallWatch {
  readonly #database: Database;
  readonly #events: Events;
  #lookedAtMs = Number.NEGATIVE_INFINITY;

  constructor(parts: { database: Database; events: Events }) {
    this.#database = parts.database;
    this.#events = parts.events;
  }

  async look(): Promise<void> {
    if (performance.now() - this.#lookedAtMs < AT_MOST_EVERY_MS) return;
    this.#lookedAtMs = performance.now();
    const judged = (await findStalled(this.#database)).map((stalled) => ({
      stalled,
      action: stallOn(stalled, { ...stalled, retry: stalled.retry ?? undefined }, Math.random()),
    }));
    await this.#end(judged.filter(({ action }) => action.kind === "fail" || action.kind === "again"));
    await this.#tell(judged.filter(({ action }) => action.kind === "alert").map(({ stalled }) => stalled));
  }

  async #end(judged: readonly Judged[]): Promise<void> {
    if (judged.length === 0) return;
    const ended = new Set(
      await endStalled(
        this.#database,
        judged.map(({ stalled, action }) => ({
          outcome: outcomeOf(stalled, action),
          stalledAfterMs: stalled.stalledAfterMs,
        })),
      ),
    );
    for (const { stalled, action } of judged) {
      if (ended.has(stalled.claimId)) this.#emit(stalled, action.kind === "again" ? "retried" : "failed");
    }
  }

  /** Once for each stall; the alert is resolved when the task gets on again or its attempt ends. */
  async #tell(stalled: readonly StalledClaim[]): Promise<void> {
    const raised = new Set(
      await settleStallAlerts(
        this.#database,
        stalled.map((one) => ({
          subject: one.taskId,
          message: `Task ${one.taskId} (${one.name}) is stalled. ${stallError(one).message}`,
          details: { ...stallError(one), claimId: one.claimId, replicaId: one.replicaId },
        })),
      ),
    );
    for (const one of stalled) if (raised.has(one.taskId)) this.#emit(one, "alerted");
  }

  #emit(stalled: StalledClaim, action: "alerted" | "failed" | "retried"): void {
    const { taskId, claimId, name, attempt, replicaId, quietForMs, phase } = stalled;
    this.#events.emit("task.stalled", { taskId, claimId, name, attempt, replicaId, quietForMs, phase, action });
  }
}

function outcomeOf(stalled: StalledClaim, action: StallAction): Outcome {
  const base = {
    claim: stalled.claimId,
    task: stalled.taskId,
    replica: stalled.replicaId,
    outcome: "failed",
    error: stallError(stalled),
  } as const;
  if (action.kind === "again") return { ...base, to: "pending", failures: action.failures, delayMs: action.delayMs };
  return { ...base, to: "failed", failures: action.kind === "fail" ? action.failures : stalled.failures };
}
