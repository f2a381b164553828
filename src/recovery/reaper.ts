/**
 * The reaper: listens for silence. Any replica can be it, one is at a time, and nobody is configured to be it: the sweep is a service of the cluster, and
 * whoever's turn it is sweeps (services/cluster-services.ts). What a sweep makes of the silence of hearts and of attempts is said by their sources (source.ts).
 */
import type { RecoverySettings } from "../config/recovery-options.ts";
import type { Database } from "../database/database.ts";
import type { Events } from "../events.ts";
import type { ClusterService } from "../services/cluster-service.ts";
import { SERVICES } from "../services/list.ts";
import { beginSweep, type SweepBegun } from "../sql/hearts.ts";
import type { ReplicaId } from "../task/ids.ts";
import { endAlerts } from "./ended-alerts.ts";
import { whileListening } from "./keep-listening.ts";
import { listeningGapMs, takeoverAfterMs } from "./limits.ts";
import { PassedBy } from "./passed-by.ts";
import type { LastSigns } from "./post-mortems.ts";
import { sweepSilence } from "./silence-sweep.ts";
import { HeartSource } from "./sources/hearts.ts";
import { StallSource } from "./sources/stalls.ts";
import { alertIfStopped } from "./stopped-sweeps.ts";

export interface ReaperParts {
  readonly database: Database;
  readonly events: Events;
  readonly settings: RecoverySettings;
  /** Who sweeps: a replica, or a process without a worker, which has no heart. */
  readonly replica: { readonly id: ReplicaId; readonly isReplica?: boolean };
  /** While this process moves its claims to another id, it must not judge the one that it leaves. */
  readonly isMoving: () => boolean;
  readonly onError: (error: unknown) => void;
  /** What tasks and hearts said last, for the post-mortems. */
  readonly lastSigns?: LastSigns;
}

/** Over hearts. What falls silent more seldom than that, or may be known later, is swept by a service of its own, so that it delays no verdict. */
export function sweepService(parts: ReaperParts): ClusterService {
  const reaper = new Reaper(parts);
  return {
    ...{ name: "sweep", everyMs: parts.settings.checkMs, doing: "listening for silence" },
    isUrgent: true,
    runOnce: () => reaper.sweep(),
    onOverdue: () => reaper.alertIfStopped(),
  };
}

/** Stalls are a matter of seconds at least. */
export function stallService(parts: Pick<ReaperParts, "database" | "events" | "settings" | "onError">): ClusterService {
  const stalls = new StallSource({ ...parts, passedBy: new PassedBy({ service: "sweep", part: "stalls" }, parts) });
  return {
    ...{ name: "stalls", everyMs: Math.max(SERVICES.stalls.everyMs, parts.settings.checkMs), doing: stalls.doing },
    runOnce: () => sweepSilence(stalls),
  };
}

class Reaper {
  readonly #parts: ReaperParts;
  readonly #hearts: HeartSource;
  readonly #alerts: PassedBy;

  constructor(parts: ReaperParts) {
    this.#parts = parts;
    const passingBy = (part: string) => new PassedBy({ service: "sweep", part }, parts);
    this.#hearts = new HeartSource({ ...parts, passingBy });
    this.#alerts = passingBy("alerts");
  }

  /** The listener is listened to: whoever lives and cannot sweep says so, once nobody has for too long. */
  async sweep(): Promise<void> {
    try {
      await this.#sweep();
    } catch (error) {
      await this.alertIfStopped().catch(() => {});
      throw error;
    }
  }

  alertIfStopped(): Promise<void> {
    const { database, events, settings } = this.#parts;
    return alertIfStopped({ database, events, checkMs: settings.checkMs });
  }

  async #sweep(): Promise<void> {
    const { database, settings, replica } = this.#parts;
    const { isReplica = true } = replica;
    const gapMs = listeningGapMs(settings);
    const begun = await beginSweep(database, { id: replica.id, isReplica, gapMs });
    this.#tellOfTakeover(begun);
    await whileListening({ database, gapMs, isReplica }, async () => {
      await this.#hearts.begin(begun);
      await sweepSilence(this.#hearts);
      await endAlerts(database, this.#alerts);
    });
  }

  /** Sweeps go round among those who live; what is told is that another has stopped doing its part. */
  #tellOfTakeover({ sweptBy, sweptAgoMs }: SweepBegun): void {
    const { events, replica, settings } = this.#parts;
    if (sweptBy === null || sweptAgoMs === null || sweptBy === replica.id) return;
    if (sweptAgoMs > takeoverAfterMs(settings))
      events.emit("reaper.took-over", { replicaId: replica.id, before: sweptBy, sweptAgoMs });
  }
}
