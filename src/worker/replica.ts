/** This process as the database knows it: a new id at every start. */
import { hostname } from "node:os";
import type { Database } from "../database/database.ts";
import { type ReplicaRow, registerReplica, saveDefinitions, setReplicaStatus } from "../sql/replicas.ts";
import type { AnyTask } from "../task/define-task.ts";
import { newReplicaId, type ReplicaId } from "../task/ids.ts";
import { settingsRecord } from "../task/settings.ts";
import { VERSION } from "../version.ts";

export interface Replica {
  readonly id: ReplicaId;
  setStatus(status: ReplicaRow["status"]): Promise<void>;
}

export async function joinAsReplica(
  database: Database,
  parts: { tasks: readonly AnyTask[]; queues: readonly string[] | undefined },
): Promise<Replica> {
  const id = newReplicaId();
  await saveDefinitions(
    database,
    parts.tasks.map((task) => ({ name: task.name, settings: settingsRecord(task.settings) })),
  );
  await registerReplica(database, {
    id,
    hostname: hostname(),
    pid: process.pid,
    version: VERSION,
    tasks: parts.tasks.map((task) => task.name),
    queues: parts.queues,
  });
  return { id, setStatus: (status) => setReplicaStatus(database, id, status) };
}
