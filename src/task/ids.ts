/** Ids, branded so that one kind is never passed for another. */
import { randomBytes, randomUUID } from "node:crypto";

declare const brand: unique symbol;
type Branded<T, B extends string> = T & { readonly [brand]: B };

export type TaskId = Branded<string, "TaskId">;
export type ReplicaId = Branded<string, "ReplicaId">;
/** The fencing token: an ever-growing number. A string here, since it may outgrow what a JavaScript number holds exactly. */
export type ClaimId = Branded<string, "ClaimId">;

/** What gives the right to write about a task: the claim, and the task that it is on. The claim's id alone does not. */
export interface ClaimOnTask {
  readonly claimId: ClaimId;
  readonly taskId: TaskId;
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

export function isUuid(value: unknown): value is string {
  return typeof value === "string" && UUID.test(value);
}

const COUNTER_BITS = 26;
/** The part of the counter that is in the second half of an id. */
const LOW = 0x3fff;
/** The random end of an id, in hexadecimal digits. */
const TAIL_DIGITS = 12;
/** Randomness is fetched for so many ids at once: fetching takes longer than everything else about an id. */
const TAILS_AT_ONCE = 256;

/**
 * Time-ordered ids (UUID version 7), made by the client so that a call repeated after a lost reply is the same task.
 * Within one source each id is larger than the one before, also within a millisecond and when the clock is set back:
 * tasks of one batch keep their order. The clock only orders ids; nothing is decided by it.
 */
export class TaskIds {
  #lastMs = 0;
  #counter = 0;
  /** All of an id that changes at most once in a millisecond. */
  #head = "";
  #tails = "";
  #tailAt = 0;

  next(nowMs: number = Date.now()): TaskId {
    if (nowMs > this.#lastMs) {
      // Half of the counter's range is left for what follows in the same millisecond.
      this.#begin(nowMs, Number.parseInt(this.#nextTail(), 16) % 2 ** (COUNTER_BITS - 1));
    } else if (++this.#counter >= 2 ** COUNTER_BITS) {
      this.#begin(this.#lastMs + 1, 0);
    } else if ((this.#counter & LOW) === 0) {
      this.#begin(this.#lastMs, this.#counter);
    }
    const low = (0x8000 | (this.#counter & LOW)).toString(16);
    return `${this.#head}${low}-${this.#nextTail()}` as TaskId;
  }

  #begin(ms: number, counter: number): void {
    this.#lastMs = ms;
    this.#counter = counter;
    const time = ms.toString(16).padStart(12, "0");
    const high = (0x7000 | (counter >>> 14)).toString(16);
    this.#head = `${time.slice(0, 8)}-${time.slice(8)}-${high}-`;
  }

  #nextTail(): string {
    if (this.#tailAt === this.#tails.length) {
      this.#tails = randomBytes((TAILS_AT_ONCE * TAIL_DIGITS) / 2).toString("hex");
      this.#tailAt = 0;
    }
    const from = this.#tailAt;
    this.#tailAt += TAIL_DIGITS;
    return this.#tails.slice(from, this.#tailAt);
  }
}

export function newReplicaId(): ReplicaId {
  return randomUUID() as ReplicaId;
}
