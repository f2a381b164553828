/**
 * Why a task is where it is, in plain words, with the evidence, what will happen when, and what can be done. Pure: the
 * same facts always give the same explanation.
 */
import type { Advice } from "../advice.ts";
import type { RecoverySettings } from "../config/recovery-options.ts";
import type { TaskFacts } from "../sql/explain-task.ts";
import type { TaskId } from "../task/ids.ts";
import type { TaskState } from "../task/states.ts";
import { explainEnded } from "./explain-ended.ts";
import { explainOwned } from "./explain-owned.ts";
import { explainPending } from "./explain-pending.ts";

/** Words for programs; people read the summary. */
export const REASONS = [
  // pending
  "due",
  "parked",
  "delayed",
  "backoff",
  "queue-paused",
  "queue-not-usable",
  "no-worker",
  "unknown-task",
  "queue-not-served",
  "concurrency-limit",
  "rate-limit",
  "key-rate-limit",
  "behind-others",
  "kept-apart",
  // claimed or running
  "owner-alive",
  "owner-draining",
  "past-timeout",
  "owner-blocked",
  "runner-blocked",
  "stalled",
  "owner-unheard",
  "owner-stale",
  "session-lost",
  "owner-dying",
  "owner-gone",
  "recovery-off",
  "recovery-held",
  "nobody-sweeps",
  "cancelling",
  // ended
  "completed",
  "failed",
  "not-claimable",
  "needs-review",
  "quarantined",
  "reviewed",
  "cancelled",
  "expired",
] as const;
export type Because = (typeof REASONS)[number];

export interface Reason {
  readonly because: Because;
  /** One sentence: why it is where it is. */
  readonly summary: string;
  readonly evidence: readonly string[];
  /** What will happen, and when, if nobody does anything. */
  readonly next: string;
  /** It does not go on by itself. */
  readonly isStuck: boolean;
  /** What helps, where something does. */
  readonly advice: readonly Advice[];
}

export interface Explanation extends Reason {
  readonly taskId: TaskId;
  readonly name: string;
  readonly state: TaskState;
}

/** `fallback`: the settings to reckon with where none are on record. */
export function explain(facts: TaskFacts, fallback: RecoverySettings): Explanation {
  const { id, name, state } = facts;
  return { taskId: id, name, state, ...reasonOf(facts, facts.settings ?? fallback) };
}

function reasonOf(facts: TaskFacts, settings: RecoverySettings): Reason {
  switch (facts.state) {
    case "pending":
      return explainPending(facts, settings);
    case "claimed":
    case "running":
      return explainOwned(facts, settings);
    case "completed":
    case "failed":
    case "cancelled":
    case "expired":
      return explainEnded(facts);
  }
}
