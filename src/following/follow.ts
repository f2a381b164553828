/** Following a task or replicas: what a call is given, and the stream that it gets. */
import { type Checked, checkOptions, isAbortSignal } from "../config/checks.ts";
import { Problems } from "../config/problems.ts";
import { TaskNotFoundError } from "../task/errors.ts";
import { isUuid, type ReplicaId, type TaskId } from "../task/ids.ts";
import type { Feed } from "./feed.ts";
import { isPosition } from "./position.ts";
import { type ReplicaNews, ReplicaView } from "./replica-updates.ts";
import { type Placed, Stream } from "./stream.ts";
import { type TaskNews, TaskView } from "./task-updates.ts";

export type TaskUpdate = TaskNews & Placed;
export type ReplicaUpdate = ReplicaNews & Placed;

export interface FollowOptions {
  /** The `position` of an update that was told before: it goes on behind that. Where that is not possible any more, it begins with the present state. */
  from?: string | undefined;
  /** Ends it: who reads is told the signal's reason. */
  signal?: AbortSignal | undefined;
}

const FOLLOW_RULES = { from: isPosition, signal: isAbortSignal };

export function followTask(
  feed: Feed,
  id: string,
  options: FollowOptions,
): AsyncIterableIterator<TaskUpdate, undefined> {
  const problems = new Problems();
  const { from, signal } = checkFollow(options, problems);
  if (!isUuid(id)) problems.add("id", "must be a task's id");
  problems.throwIfAny("What is to be followed");
  const taskId = id.toLowerCase() as TaskId;
  return new Stream<TaskNews>(feed, {
    ...{ topic: `task ${taskId}`, taskId, view: new TaskView(), from, signal },
    dropped: (count) => ({ kind: "dropped", count }),
    notFound: () => new TaskNotFoundError(taskId),
  });
}

/** Without an id: all of them. */
export function followReplicas(
  feed: Feed,
  { replicaId, ...options }: FollowOptions & { replicaId?: ReplicaId | undefined },
): AsyncIterableIterator<ReplicaUpdate, undefined> {
  const problems = new Problems();
  const { from, signal } = checkFollow(options, problems);
  if (replicaId !== undefined && !isUuid(replicaId)) problems.add("replicaId", "must be a replica's id");
  problems.throwIfAny("What is to be followed");
  return new Stream<ReplicaNews>(feed, {
    ...{ topic: `replica ${replicaId ?? "*"}`, view: new ReplicaView(), from, signal },
    dropped: (count) => ({ kind: "dropped", count }),
  });
}

function checkFollow(options: FollowOptions, problems: Problems): Checked<typeof FOLLOW_RULES> {
  return checkOptions(options, FOLLOW_RULES, { path: "", problems });
}
