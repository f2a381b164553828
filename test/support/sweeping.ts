/** Sweeps in the test's own process, one at a time, and what each told. */
import { Problems } from "../../src/config/problems.ts";
import { checkRecovery, type RecoveryOptions } from "../../src/config/recovery-options.ts";
import type { Database } from "../../src/database/database.ts";
import { type AnyEventName, Events } from "../../src/events.ts";
import { type ReaperParts, stallService, sweepService } from "../../src/recovery/reaper.ts";
import { ClusterServices } from "../../src/services/cluster-services.ts";
import { newReplicaId } from "../../src/task/ids.ts";
import { purgeService } from "../../src/upkeep/purge-record.ts";

/** All that listens, and the removal of what is old: a run is each of them whose turn it is, and throws what one of them failed with. */
export function createReaper(parts: ReaperParts): Pick<ClusterServices, "start" | "stop" | "runOnce"> {
  const services = [sweepService(parts), stallService(parts), purgeService(parts)];
  let failures: unknown[] = [];
  const onError = (error: unknown) => void failures.push(error);
  const cluster = new ClusterServices({ ...parts, taker: parts.replica, services, onError });
  return {
    start: () => cluster.start(),
    stop: () => cluster.stop(),
    async runOnce() {
      failures = [];
      await cluster.runOnce();
      if (failures.length > 0) throw failures[0];
    },
  };
}

export interface Sweeper {
  /** One whole sweep. */
  sweep(): Promise<void>;
  /** The events of all sweeps so far. */
  readonly told: { readonly event: AnyEventName; readonly [field: string]: unknown }[];
  /** What went to the log besides. */
  readonly errors: unknown[];
}

/** `id`: who sweeps; it need not be on record. */
export function sweeper(database: Database, options: RecoveryOptions = {}, id = newReplicaId()): Sweeper {
  const errors: unknown[] = [];
  const onError = (error: unknown) => void errors.push(error);
  const events = new Events(onError);
  const told: Sweeper["told"] = [];
  events.onAny((event, fields) => told.push({ ...fields, event }));
  const reaper = createReaper({
    ...{ database, events, settings: checkRecovery(options, new Problems()), replica: { id } },
    ...{ onError, isMoving: () => false },
  });
  return { sweep: () => reaper.runOnce(), told, errors };
}

/** As if signs could be heard, and everything that runs had begun, an hour ago. */
export async function anHourLater(database: Database): Promise<void> {
  await database.query(
    `insert into ${database.schema}.listening (epoch, hearing_since, swept_at) values (${database.schema}.current_epoch(), now(), now())
     on conflict (is_only) do update set epoch = excluded.epoch`,
  );
  await database.query(
    `update ${database.schema}.listening set hearing_since = now() - interval '1 hour', swept_at = now() - interval '2 seconds'`,
  );
  await database.query(`update ${database.schema}.turn set taken_at = now() - interval '2 seconds'`);
  await database.query(`update ${database.schema}.running set started_at = started_at - interval '1 hour'`);
  await database.query(`update ${database.schema}.progress set changed_at = changed_at - interval '1 hour'`);
}
