/**
 * A process that has Everbeat open and runs no task can run the services of the cluster too, so that also the death of the last worker is
 * noticed. It stands behind all replicas in line, and judges by their settings, which are on record. What it has once, it keeps.
 */
import type { RecoverySettings } from "../config/recovery-options.ts";
import type { Database } from "../database/database.ts";
import { isMendedByMigrating } from "../database/errors.ts";
import type { Events } from "../events.ts";
import { ClusterServices } from "../services/cluster-services.ts";
import { SERVICES } from "../services/list.ts";
import type { Runs } from "../services/process-services.ts";
import { createService, type Service } from "../services/service.ts";
import { readActingSettings } from "../sql/fleet-settings.ts";
import { newReplicaId } from "../task/ids.ts";
import { clusterServices } from "./cluster.ts";

export interface ServicesWithoutWorkerParts {
  readonly database: Database;
  readonly events: Events;
  /** For as long as no replica is on record. */
  readonly settings: RecoverySettings;
  /** It was opened before the schema is migrated: it looks again until that is so, and tells nobody. */
  readonly awaitsSchema: boolean;
  /** Told of what fails, and of each time that it reached the database. */
  readonly outages: { noticed(error: unknown, doing: string): void; over(doing: string): void };
}

const DOING = "listening for silence";

export class ServicesWithoutWorker {
  readonly #parts: ServicesWithoutWorkerParts;
  readonly #taker = { id: newReplicaId(), isReplica: false };
  readonly #cluster: ClusterServices;
  readonly #reading: Service;
  #settings: string | undefined;

  constructor(parts: ServicesWithoutWorkerParts) {
    this.#parts = parts;
    const { database, outages } = parts;
    this.#cluster = new ClusterServices({
      ...{ database, taker: this.#taker, services: [] },
      onAsked: () => outages.over(DOING),
      onError: (error, doing) => outages.noticed(error, doing),
    });
    this.#reading = createService({
      name: "acting settings",
      intervalMs: SERVICES["acting settings"].everyMs,
      runOnce: () => this.#readSettings(),
      onError: (error) => {
        if (!(parts.awaitsSchema && isMendedByMigrating(error))) outages.noticed(error, DOING);
      },
    });
  }

  /** What of it runs at intervals. */
  get services(): readonly Runs[] {
    return [this.#reading, this.#cluster];
  }

  start(): void {
    this.#reading.start();
  }

  async stop(): Promise<void> {
    await this.#reading.stop();
    await this.#cluster.stop();
  }

  /** It begins when it knows them: by its own it might judge too soon. */
  async #readSettings(): Promise<void> {
    const { database, events, outages } = this.#parts;
    const settings = (await readActingSettings(database)) ?? this.#parts.settings;
    const text = JSON.stringify(settings);
    if (text === this.#settings) return;
    this.#settings = text;
    this.#cluster.services = clusterServices({
      ...{ database, events, settings, replica: this.#taker, isMoving: () => false },
      onError: (error, doing) => outages.noticed(error, doing),
    });
    this.#cluster.start();
  }
}
