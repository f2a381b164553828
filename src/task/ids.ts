/** Ids, branded so that one kind is never passed for another. */
import { randomBytes, randomUUID } from "node:crypto";

declare const brand: unique symbol;
type Branded<T, B extends string> = T & { readonly [brand]: B };

export type TaskId = Branded<string, "TaskId">;
export type ReplicaId = Branded<string, "ReplicaId">;
/** The fencing token: an ever-growing number. A string here, since it may outgrow what a JavaScript number holds exactly. */
export type ClaimId = Branded<string, "ClaimId">;

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

export function isUuid(value: unknown): value is string {
  return typeof value === "string" && UUID.test(value);
}

const COUNTER_BITS = 26;

/**
 * Time-ordered ids (UUID version 7), made by the client so that a call repeated after a lost reply is the same task.
 * Within one source each id is larger than the one before, also within a millisecond and when the clock is set back:
 * tasks of one batch keep their order. The clock only orders ids; nothing is decided by it.
 */
export class TaskIds {
  #lastMs = 0;
  #counter = 0;

  next(nowMs: number = Date.now()): TaskId {
    const bytes = randomBytes(16);
    if (nowMs > this.#lastMs) {
      this.#lastMs = nowMs;
      // Half of the counter's range is left for what follows in the same millisecond.
      this.#counter = bytes.readUInt32BE(6) >>> (32 - COUNTER_BITS + 1);
    } else if (++this.#counter >= 2 ** COUNTER_BITS) {
      this.#lastMs++;
      this.#counter = 0;
    }
    bytes.writeUIntBE(this.#lastMs, 0, 6);
    bytes.writeUInt16BE(0x7000 | (this.#counter >>> 14), 6);
    bytes.writeUInt16BE(0x8000 | (this.#counter & 0x3fff), 8);
    const hex = bytes.toString("hex");
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}` as TaskId;
  }
}

export function newReplicaId(): ReplicaId {
  return randomUUID() as ReplicaId;
}
