/** Looks for attempts that are alive and do not get on, and does with them what their definition says. A part of the sweep. */
import type { Database } from "../database/database.ts";
import type { Events } from "../events.ts";
import type { Outcome } from "../sql/outcomes.ts";
import {
  endStalled,
  findStalled,
  raiseStallAlerts,
  resolveOtherStallAlerts,
  type StallAlert,
  type StalledClaim,
} from "../sql/stalls.ts";
import { storedSettings } from "../task/stored-settings.ts";
import type { PassedBy } from "./passed-by.ts";
import { type StallAction, type StallPolicy, stallError, stallOn } from "./stall.ts";

/** Stalls are a matter of seconds at least, so not every sweep needs to look for them. */
const AT_MOST_EVERY_MS = 1_000;

interface Judged {
  readonly stalled: StalledClaim;
  readonly action: StallAction;
}

export class StallWatch {
  readonly #database: Database;
  readonly #events: Events;
  readonly #passedBy: PassedBy;
  #lookedAtMs = Number.NEGATIVE_INFINITY;

  constructor(parts: { database: Database; events: Events; passedBy: PassedBy }) {
    this.#database = parts.database;
    this.#events = parts.events;
    this.#passedBy = parts.passedBy;
  }

  async look(): Promise<void> {
    if (performance.now() - this.#lookedAtMs < AT_MOST_EVERY_MS) return;
    this.#lookedAtMs = performance.now();
    const judged = (await findStalled(this.#database)).map((stalled) => ({
      stalled,
      action: stallOn(stalled, policyOf(stalled), Math.random()),
    }));
    await this.#end(judged.filter(({ action }) => action.kind === "fail" || action.kind === "again"));
    await this.#tell(judged.filter(({ action }) => action.kind === "alert").map(({ stalled }) => stalled));
    await this.#passedBy.settle();
  }

  async #end(judged: readonly Judged[]): Promise<void> {
    const ended = await this.#passedBy.inHalves(
      judged,
      ({ stalled }) => `the end of ${nameOf(stalled)}`,
      (part) => this.#endPart(part),
    );
    for (const { stalled, action } of ended) this.#emit(stalled, action.kind === "again" ? "retried" : "failed");
  }

  async #endPart(judged: readonly Judged[]): Promise<Judged[]> {
    const ended = new Set(
      await endStalled(
        this.#database,
        judged.map(({ stalled, action }) => ({
          outcome: outcomeOf(stalled, action),
          stalledAfterMs: stalled.stalledAfterMs,
        })),
      ),
    );
    return judged.filter(({ stalled }) => ended.has(stalled.claimId));
  }

  /** Once for each stall; the alert is resolved when the task gets on again or its attempt ends. */
  async #tell(stalled: readonly StalledClaim[]): Promise<void> {
    const raised = new Set(
      await this.#passedBy.inHalves(
        stalled,
        (one) => `the alert about ${nameOf(one)}`,
        (part) => raiseStallAlerts(this.#database, part.map(alertOf)),
      ),
    );
    for (const one of stalled) if (raised.has(one.taskId)) this.#emit(one, "alerted");
    await resolveOtherStallAlerts(
      this.#database,
      stalled.map(({ taskId }) => taskId),
    );
  }

  #emit(stalled: StalledClaim, action: "alerted" | "failed" | "retried"): void {
    const { taskId, claimId, name, attempt, replicaId, quietForMs, phase } = stalled;
    this.#events.emit("task.stalled", { taskId, claimId, name, attempt, replicaId, quietForMs, phase, action });
  }
}

function nameOf({ taskId, name }: StalledClaim): string {
  return `task ${taskId} (${name}), which has stalled,`;
}

function alertOf(stalled: StalledClaim): StallAlert {
  const { taskId, claimId, replicaId, name } = stalled;
  const error = stallError(stalled);
  const message = `Task ${taskId} (${name}) is stalled. ${error.message}`;
  return { subject: taskId, message, details: { ...error, claimId, replicaId } };
}

function policyOf({ stalledAfterMs, settings }: StalledClaim): StallPolicy {
  const { onStall = "alert", retry } = storedSettings(settings);
  return { stalledAfterMs, onStall, retry };
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
