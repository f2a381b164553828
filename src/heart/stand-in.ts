/**
 * A session lock for a replica whose heart is still starting: the session that notices come on holds it meanwhile, so that the
 * first task need not wait for the heart's thread, and the end of the process is told by its session all the same.
 */
import type { Notices } from "../database/notices.ts";
import { letGoOfSession, takeSession } from "../sql/hearts.ts";
import type { ReplicaId } from "../task/ids.ts";

export interface StandIn {
  /** In which the lock was taken. */
  readonly epoch: string;
  /** As far as this process knows. */
  isHeld(): boolean;
  letGo(): Promise<void>;
}

/** Undefined where there is no such session: the database is away, or a pooler gives each transaction another one. */
export async function takeStandIn(notices: Notices, replicaId: ReplicaId): Promise<StandIn | undefined> {
  await notices.start();
  const { session } = notices;
  if (!session) return undefined;
  try {
    return {
      epoch: await takeSession(session, replicaId),
      isHeld: () => notices.session === session,
      // Where that fails, the session is at its end, and the lock with it.
      letGo: () => letGoOfSession(session, replicaId).catch(() => {}),
    };
  } catch {
    return undefined;
  }
}
