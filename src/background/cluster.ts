/** The services of the cluster, composed: a new one is an entry in services/list.ts and one more here. */
import type { RecoverySettings } from "../config/recovery-options.ts";
import type { Database } from "../database/database.ts";
import type { Events } from "../events.ts";
import { stallService, sweepService } from "../recovery/reaper.ts";
import type { ClusterService } from "../services/cluster-service.ts";
import { ClusterServices } from "../services/cluster-services.ts";
import type { ClusterServiceName } from "../services/list.ts";
import type { Runs } from "../services/process-services.ts";
import type { Retention } from "../sql/upkeep.ts";
import type { ReplicaId } from "../task/ids.ts";
import { purgeService } from "../upkeep/purge-record.ts";
import { retentionService } from "../upkeep/retention.ts";
import { upkeepService } from "../upkeep/upkeep.ts";

export interface BackgroundParts {
  readonly database: Database;
  readonly events: Events;
  readonly settings: RecoverySettings;
  readonly replica: { readonly id: ReplicaId; readonly isReplica?: boolean };
  readonly isMoving: () => boolean;
  readonly onError: (error: unknown, doing: string) => void;
}

/** Of a worker: the services of the cluster when it is its turn, and what each worker does by its own settings. */
export function workerServices(parts: BackgroundParts & { readonly retention: Retention }): readonly Runs[] {
  return [
    new ClusterServices({ ...parts, taker: parts.replica, services: clusterServices(parts) }),
    retentionService({ ...parts, onError: (error) => parts.onError(error, "removing ended tasks") }),
  ];
}

export function clusterServices(parts: BackgroundParts): readonly ClusterService[] {
  const told = (doing: string) => ({ ...parts, onError: (error: unknown) => parts.onError(error, doing) });
  // All but the sweep can wait: they leave connections to whatever else the process does, however slow they are.
  const waiting = (doing: string) => ({ ...told(doing), database: parts.database.sparing() });
  const services: Record<ClusterServiceName, ClusterService> = {
    sweep: sweepService(told("listening for silence")),
    stalls: stallService(waiting("looking for stalls")),
    upkeep: upkeepService(waiting("doing upkeep")),
    purge: purgeService(waiting("removing what is old")),
  };
  return Object.values(services);
}
