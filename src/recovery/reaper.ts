/**
 * The reaper: listens for silence. Any replica can be it, one is at a time, and nobody is configured to be it: whoever gets the lock for this sweep.
 * The others stand in line (see standby.ts). What a sweep makes of the silence of hearts and of attempts is said by their sources (source.ts).
 */
import type { RecoverySettings } from "../config/recovery-options.ts";
import type { Database } from "../database/database.ts";
import type { Events } from "../events.ts";
import { createService, type Service } from "../service.ts";
import { beginSweep, type SweepTurn } from "../sql/hearts.ts";
import { noteSweep } from "../sql/recovery.ts";
import type { ReplicaId } from "../task/ids.ts";
import { whileListening } from "./keep-listening.ts";
import { PassedBy } from "./passed-by.ts";
import type { LastSigns } from "./post-mortems.ts";
import { purgeRecord } from "./purge.ts";
import { sweepSilence } from "./silence-sweep.ts";
import { HeartSource } from "./sources/hearts.ts";
import { StallSource } from "./sources/stalls.ts";
import { pauseBetweenSweepsMs, pauseInLineMs, placesInLine, startUpFromMs, takeoverFromMs } from "./standby.ts";
import { alertIfStopped, endStoppedAlert } from "./stopped-sweeps.ts";
import { isSweeping } from "./sweeping.ts";

/** A sweep that comes later than this many intervals is a takeover, and not only a late sweep. */
const TAKEOVER_AFTER = 1.5;

export interface ReaperParts {
  readonly database: Database;
  readonly events: Events;
  readonly settings: RecoverySettings;
  /** Who sweeps: a replica, or one that only listens and has no heart. */
  readonly replica: { readonly id: ReplicaId; readonly isListener?: boolean };
  /** While this process moves its claims to another id, it must not judge the one that it leaves. */
  readonly isMoving: () => boolean;
  readonly onError: (error: unknown) => void;
  /** What tasks and hearts said last, for the post-mortems. */
  readonly lastSigns?: LastSigns;
}

/** Stalls are a matter of seconds at least, so not every sweep needs to look for them. */
const STALLS_AT_MOST_EVERY_MS = 1_000;

export function createReaper(parts: ReaperParts): Service {
  const reaper = new Reaper(parts);
  return createService({
    intervalMs: parts.settings.checkMs,
    pauseMs: () => reaper.pauseMs,
    onError: parts.onError,
    runOnce: () => reaper.sweep(),
  });
}

export class Reaper {
  readonly #parts: ReaperParts;
  readonly #hearts: HeartSource;
  readonly #stalls: StallSource;
  readonly #purges: PassedBy;
  #purgedAt = Number.NEGATIVE_INFINITY;
  #lookedForStallsAt = Number.NEGATIVE_INFINITY;
  #pauseMs: number;
  /** A listener that is no replica stands behind all workers, also when it starts. */
  #isStarting: boolean;

  constructor(parts: ReaperParts) {
    this.#parts = parts;
    this.#pauseMs = parts.settings.checkMs;
    this.#isStarting = !parts.replica.isListener;
    const passingBy = (part: string) => new PassedBy({ service: "sweep", part }, parts);
    this.#hearts = new HeartSource({ ...parts, passingBy });
    this.#stalls = new StallSource({ ...parts, passedBy: passingBy("stalls") });
    this.#purges = passingBy("purges");
  }

  /** How long until it should be asked to sweep again. */
  get pauseMs(): number {
    return this.#pauseMs;
  }

  /** The listener is listened to: whoever lives and cannot sweep says so, once nobody has for too long. */
  async sweep(): Promise<void> {
    const { database, events, settings, isMoving } = this.#parts;
    if (isMoving()) return;
    try {
      await this.#sweepInTurn();
    } catch (error) {
      await alertIfStopped({ database, events, checkMs: settings.checkMs }).catch(() => {});
      throw error;
    }
  }

  async #sweepInTurn(): Promise<void> {
    const { database, events, settings, replica } = this.#parts;
    const startedMs = performance.now();
    const isReplica = !replica.isListener;
    const gapMs = 2.5 * Math.max(settings.checkMs, settings.runnerIntervalMs, settings.claimerIntervalMs);
    const turn = await beginSweep(database, {
      id: replica.id,
      isReplica,
      minIntervalMs: (this.#isStarting ? startUpFromMs : takeoverFromMs)(settings.checkMs),
      gapMs,
      places: placesInLine(settings.checkMs),
    });
    this.#isStarting = false;
    const hadStopped = turn.sweptAgoMs !== null && !isSweeping({ sweptAgoMs: turn.sweptAgoMs }, settings.checkMs);
    // Somebody else is at it, or was just now: it has seen all that we would see.
    if (!turn.isOurs) {
      const { place, sweptAgoMs } = turn;
      this.#pauseMs = pauseInLineMs({ place: place ?? 1, sweptAgoMs }, settings.checkMs, Math.random());
      if (hadStopped) await alertIfStopped({ database, events, checkMs: settings.checkMs });
      return;
    }
    if (hadStopped) await endStoppedAlert(database);
    this.#tellOfTakeover(turn);
    await whileListening({ database, gapMs, isReplica }, () => this.#doParts(turn));
    const tookMs = performance.now() - startedMs;
    await noteSweep(database, tookMs);
    this.#pauseMs = pauseBetweenSweepsMs(tookMs, settings.checkMs);
  }

  /** Each stands for itself: where one fails, the others are done. */
  async #doParts(turn: SweepTurn): Promise<void> {
    await this.#hearts.begin(turn);
    await sweepSilence(this.#hearts);
    await this.#lookForStalls();
    await this.#purge();
  }

  async #lookForStalls(): Promise<void> {
    if (performance.now() - this.#lookedForStallsAt < STALLS_AT_MOST_EVERY_MS) return;
    this.#lookedForStallsAt = performance.now();
    await sweepSilence(this.#stalls);
  }

  /** Sweeps go round among those who live; what is told is that another has stopped doing its part. */
  #tellOfTakeover({ sweptBy, sweptAgoMs }: SweepTurn): void {
    const { events, replica, settings } = this.#parts;
    if (sweptBy === null || sweptAgoMs === null || sweptBy === replica.id) return;
    if (sweptAgoMs > TAKEOVER_AFTER * settings.checkMs)
      events.emit("reaper.took-over", { replicaId: replica.id, before: sweptBy, sweptAgoMs });
  }

  async #purge(): Promise<void> {
    const { database, settings } = this.#parts;
    if (performance.now() - this.#purgedAt < settings.purgeEveryMs) return;
    // What is left goes with the next sweeps, so that none of them takes long.
    if (await purgeRecord(database, settings, this.#purges)) this.#purgedAt = performance.now();
    await endStoppedAlert(database);
  }
}
