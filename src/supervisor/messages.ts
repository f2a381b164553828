/** What a supervisor and its children say to each other, over the channel that Node opens between parent and child. */
import { isUuid, type ReplicaId } from "../task/ids.ts";

export type ChildMessage =
  /** It is on record under this id: at its start, and again after it was taken for dead. */
  | { readonly everbeat: "joined"; readonly replicaId: ReplicaId }
  /** And its heart beats. */
  | { readonly everbeat: "ready"; readonly replicaId: ReplicaId }
  /** The answer to "answer": its main thread turns its loop. */
  | { readonly everbeat: "here" }
  /** What it was given to run cannot be run; another try would end in the same way. */
  | { readonly everbeat: "refused" };

export type SupervisorMessage =
  | { readonly everbeat: "leave" }
  /** Without waiting for what runs. */
  | { readonly everbeat: "leave-now" }
  | { readonly everbeat: "answer" };

/** A handler's own messages to its parent are none of ours. */
export function readChildMessage(message: unknown): ChildMessage | undefined {
  const { everbeat, replicaId } = (message ?? {}) as { everbeat?: unknown; replicaId?: unknown };
  if (everbeat === "refused" || everbeat === "here") return { everbeat };
  if ((everbeat === "joined" || everbeat === "ready") && isUuid(replicaId))
    return { everbeat, replicaId: replicaId as ReplicaId };
  return undefined;
}

export function readSupervisorMessage(message: unknown): SupervisorMessage | undefined {
  const { everbeat } = (message ?? {}) as { everbeat?: unknown };
  return everbeat === "leave" || everbeat === "leave-now" || everbeat === "answer" ? { everbeat } : undefined;
}
