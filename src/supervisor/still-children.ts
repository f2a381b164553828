/**
 * Children that stand still (stopped, or held up in the kernel). Others have declared their replica dead and run its tasks, but the process is there, so
 * nothing else would take its place. A child is taken for one of these only if it also does not answer: one that is cut off from the database, or
 * that has just been woken up with the whole machine, answers, and comes back under a new id.
 */
import type { Store } from "../database/database.ts";
import { findDead } from "../sql/replicas.ts";
import type { Child } from "./child.ts";

/** Looks, and not time: while this process stands still too, nobody can be expected to have answered. */
const UNANSWERED_LOOKS = 15;

interface Silence {
  readonly answers: number;
  readonly looks: number;
}

export class StillChildren {
  readonly #store: Store;
  readonly #children: () => readonly Child[];
  readonly #onStill: (child: Child) => void;
  #silences = new Map<Child, Silence>();

  constructor(parts: { store: Store; children: () => readonly Child[]; onStill: (child: Child) => void }) {
    this.#store = parts.store;
    this.#children = parts.children;
    this.#onStill = parts.onStill;
  }

  async look(): Promise<void> {
    const ids = this.#children().flatMap(({ replicaId }) => replicaId ?? []);
    const dead = new Set(ids.length === 0 ? [] : await findDead(this.#store, ids));
    const silences = new Map<Child, Silence>();
    for (const child of this.#children()) {
      if (child.hasExited || child.replicaId === undefined || !dead.has(child.replicaId)) continue;
      const { answers } = child;
      const before = this.#silences.get(child);
      const looks = before?.answers === answers ? before.looks + 1 : 0;
      silences.set(child, { answers, looks });
      if (looks === UNANSWERED_LOOKS) this.#onStill(child);
      else child.wantAnswer();
    }
    this.#silences = silences;
  }
}
