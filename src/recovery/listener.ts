/**
 * A reaper without a replica: a process that has Everbeat open and runs no task listens too, so that also the death of the last worker is
 * noticed. It stands behind all replicas in line, and judges by their settings, which are on record.
 */
import type { RecoverySettings } from "../config/recovery-options.ts";
import type { Database } from "../database/database.ts";
import type { Events } from "../events.ts";
import { createService, type Service } from "../service.ts";
import { readActingSettings } from "../sql/fleet-settings.ts";
import { newReplicaId } from "../task/ids.ts";
import { Reaper } from "./reaper.ts";

/** How long workers with other settings may be here before a listener goes by them, whatever its own interval is. */
const READ_EVERY_MS = 5_000;

export interface ListenerParts {
  readonly database: Database;
  readonly events: Events;
  /** For as long as no replica is on record. */
  readonly settings: RecoverySettings;
  readonly onError: (error: unknown) => void;
  /** After every time that it asked and, where it was its turn, swept. */
  readonly onListened: () => void;
}

export function createListener(parts: ListenerParts): Service {
  const listener = new Listener(parts);
  return createService({
    intervalMs: parts.settings.checkMs,
    pauseMs: () => listener.pauseMs,
    onError: parts.onError,
    runOnce: () => listener.listen(),
  });
}

class Listener {
  readonly #parts: ListenerParts;
  readonly #replica = { id: newReplicaId(), isListener: true };
  #settings: RecoverySettings;
  #reaper: Reaper;
  #readAtMs = Number.NEGATIVE_INFINITY;
  #asksAtMs = Number.NEGATIVE_INFINITY;

  constructor(parts: ListenerParts) {
    this.#parts = parts;
    this.#settings = parts.settings;
    this.#reaper = this.#createReaper();
  }

  /** Until it asks again, or looks whether it should by now. */
  get pauseMs(): number {
    return Math.min(READ_EVERY_MS, Math.max(0, this.#asksAtMs - performance.now()));
  }

  async listen(): Promise<void> {
    try {
      if (performance.now() - this.#readAtMs >= READ_EVERY_MS) await this.#readSettings();
      if (performance.now() < this.#asksAtMs) return;
      await this.#reaper.sweep();
      this.#parts.onListened();
    } finally {
      // Also after a failure: a database that is away is not asked without a pause.
      if (performance.now() >= this.#asksAtMs) this.#asksAtMs = performance.now() + this.#reaper.pauseMs;
    }
  }

  async #readSettings(): Promise<void> {
    const settings = (await readActingSettings(this.#parts.database)) ?? this.#parts.settings;
    this.#readAtMs = performance.now();
    if (JSON.stringify(settings) === JSON.stringify(this.#settings)) return;
    this.#settings = settings;
    this.#reaper = this.#createReaper();
    this.#asksAtMs = Number.NEGATIVE_INFINITY;
  }

  #createReaper(): Reaper {
    return new Reaper({ ...this.#parts, settings: this.#settings, replica: this.#replica, isMoving: () => false });
  }
}
