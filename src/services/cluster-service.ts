/** The one shape of what runs once in the cluster, in whichever process has its turn (see cluster-services.ts). */
import type { ReplicaId } from "../task/ids.ts";

export interface ClusterService {
  readonly name: string;
  readonly everyMs: number;
  /** In words, for the log. */
  readonly doing: string;
  /** It is run at once by a process that starts, and by another as soon as it is late, whether or not the one that has it is still at it. */
  readonly isUrgent?: boolean;
  runOnce(turn: Turn): Promise<void>;
  /** It is somebody else's turn, or nobody can be asked, and it has not been run for too long. */
  onOverdue?(): Promise<void>;
}

export interface Turn {
  /** Under this id. */
  readonly by: ReplicaId;
  /** Fires when the run should end early: the process stops, the run takes too long, or the turn was lost to another. */
  readonly signal: AbortSignal;
}
