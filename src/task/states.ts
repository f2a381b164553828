/** The states of a task and every way between them: the one table that the database and the docs are compared with. */
export const TASK_TRANSITIONS = {
  pending: ["claimed", "running", "cancelled", "expired"],
  claimed: ["running", "pending", "cancelled", "expired"],
  running: ["completed", "failed", "cancelled", "pending"],
  completed: [],
  failed: ["pending"],
  cancelled: [],
  expired: [],
} as const satisfies Record<string, readonly string[]>;

export type TaskState = keyof typeof TASK_TRANSITIONS;

export const TASK_STATES = Object.keys(TASK_TRANSITIONS) as readonly TaskState[];
export const ENDED_STATES = ["completed", "failed", "cancelled", "expired"] as const satisfies readonly TaskState[];
export type EndedState = (typeof ENDED_STATES)[number];

export function isEnded(state: TaskState): state is EndedState {
  return (ENDED_STATES as readonly TaskState[]).includes(state);
}

/** How one attempt can end. The first four end the task too; after the others it is pending again. */
export const ATTEMPT_OUTCOMES = [...ENDED_STATES, "snoozed", "crashed", "aborted", "taken"] as const;
export type AttemptOutcome = (typeof ATTEMPT_OUTCOMES)[number];
