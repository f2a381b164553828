/**
 * What the main thread has its heart put on record just before the process may end. The main thread waits for that: nothing that it begins by itself
 * could still end. For a moment only, since the database may not answer.
 */
import { delay } from "../database/backoff.ts";
import type { Store } from "../database/database.ts";
import { noteExitCall, noteStoppers } from "../sql/last-words.ts";
import type { ExitCall } from "../task/death.ts";
import type { ClaimOnTask, ReplicaId } from "../task/ids.ts";

export type LastWord =
  /** The tasks of these claims have told the worker to stop. */
  | { readonly kind: "stoppers"; readonly claims: readonly ClaimOnTask[] }
  /** A task that has ended has called `process.exit()`. */
  | { readonly kind: "exit-call"; readonly call: ExitCall };

const AT_MOST_MS = 1_000;
const LOOK_EVERY_MS = 5;

/** Where the main thread waits until its heart rings. */
export class Bell {
  readonly buffer: SharedArrayBuffer;
  readonly #rings: Int32Array;

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)) {
    this.buffer = buffer;
    this.#rings = new Int32Array(buffer);
  }

  /** Blocks this thread. */
  waitAfter(work: () => void): void {
    const before = Atomics.load(this.#rings, 0);
    work();
    Atomics.wait(this.#rings, 0, before, AT_MOST_MS);
  }

  ring(): void {
    Atomics.add(this.#rings, 0, 1);
    Atomics.notify(this.#rings, 0);
  }
}

/** `store`: undefined while the heart has no connection. The first task may begin before it has one. */
export async function putOnRecord(store: () => Store | undefined, replicaId: ReplicaId, word: LastWord): Promise<void> {
  const until = performance.now() + AT_MOST_MS;
  while (store() === undefined && performance.now() < until) await delay(LOOK_EVERY_MS);
  const reached = store();
  if (!reached) return;
  if (word.kind === "stoppers") await noteStoppers(reached, replicaId, word.claims);
  else await noteExitCall(reached, replicaId, word.call);
}
