/** Blockages of one thread's loop as they are on record: one row for each, and an alert for as long as it lasts. */
import { formatDuration } from "../config/duration.ts";
import type { Store } from "../database/database.ts";
import { type BlockedThread, noteBlockedLoop, noteLoopTurned } from "../sql/blocked-loops.ts";
import { firstFrame } from "../task/stack-frames.ts";
import type { BlockageSight } from "./loop-watch.ts";

export interface BlockageRecordParts {
  readonly thread: () => BlockedThread;
  /** "replica X on host": whose loop it is. */
  readonly name: () => string;
  readonly store: () => Store;
}

export class BlockageRecord {
  readonly #parts: BlockageRecordParts;
  #id: string | undefined;

  constructor(parts: BlockageRecordParts) {
    this.#parts = parts;
  }

  async note({ blockedMs, stack, pausedMs, overdue }: BlockageSight): Promise<void> {
    const { thread, name, store } = this.#parts;
    const where = stack === undefined ? "in native code, or where it could not be asked" : `in: ${firstFrame(stack)}`;
    const message = `The event loop of ${name()} has been blocked for ${formatDuration(blockedMs)}, ${where}.`;
    this.#id = await noteBlockedLoop(store(), thread(), this.#id, {
      ...{ blockedMs, stack, pausedMs, message, overdue },
    });
  }

  async turned(blockedMs: number): Promise<void> {
    if (this.#id !== undefined) await noteLoopTurned(this.#parts.store(), this.#id, blockedMs);
    this.#id = undefined;
  }
}
