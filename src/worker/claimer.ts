/** The loop that takes tasks: as many as there is room for, asleep while there is none or nothing is due. */
import { createBackoff, delay } from "../database/backoff.ts";
import type { Database } from "../database/database.ts";
import type { Notices } from "../database/notices.ts";
import { adoptClaims, armBells, type ClaimedTask, claimTasks, readNextDueMs } from "../sql/claims.ts";
import type { ClaimId, ReplicaId } from "../task/ids.ts";
import type { Outages } from "./outages.ts";
import { SearchCursors } from "./search-cursors.ts";

export interface Demand {
  readonly run: number;
  readonly prefetch: number;
  /** For each of the queues, how many more; null for any number. */
  readonly room: readonly (number | null)[] | undefined;
}

export interface ClaimerParts {
  readonly database: Database;
  readonly notices: Notices;
  readonly outages: Outages;
  readonly replica: { readonly id: ReplicaId };
  readonly names: readonly string[];
  readonly queues: readonly string[] | undefined;
  readonly pollMs: number;
  readonly demand: () => Demand;
  readonly known: () => readonly ClaimId[];
  /** With the id that they were claimed under: by the time of the reply, this replica may have another. */
  readonly onClaimed: (tasks: readonly ClaimedTask[], under: ReplicaId) => void;
  readonly onAdopted: (tasks: readonly ClaimedTask[], under: ReplicaId) => void;
}

export class Claimer {
  readonly #parts: ClaimerParts;
  readonly #cursors = new SearchCursors();
  readonly #stopping = new AbortController();
  #wake = new AbortController();
  #isArmed = false;
  #mayOwnUnknown = false;
  #loop: Promise<void> | undefined;
  #unsubscribe: (() => void)[] = [];

  constructor(parts: ClaimerParts) {
    this.#parts = parts;
  }

  start(): void {
    const { notices, queues } = this.#parts;
    this.#unsubscribe = [
      notices.on("ready", (queue) => {
        if (queue === "*" || !queues || queues.includes(queue)) this.#wakeUnarmed();
      }),
      notices.onReconnect(() => this.#wakeUnarmed()),
    ];
    this.#loop ??= this.#forever();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    for (const unsubscribe of this.#unsubscribe.splice(0)) unsubscribe();
    await this.#loop;
  }

  /** There may be something to take, or room to take it. */
  wake(): void {
    this.#wake.abort();
  }

  /** A reply was lost: there may be tasks that are ours without our knowing. */
  lookForOwn(): void {
    this.#mayOwnUnknown = true;
    this.wake();
  }

  /** Tasks were put back that sort before where the search would begin. */
  lookFromTheBeginning(): void {
    this.#cursors.forget();
    this.wake();
  }

  #wakeUnarmed(): void {
    this.#isArmed = false;
    this.#cursors.wantFullLook();
    this.wake();
  }

  async #forever(): Promise<void> {
    const backoff = createBackoff({ firstMs: 100, maxMs: 5_000 });
    while (!this.#stopping.signal.aborted) {
      try {
        const pauseMs = await this.#round();
        this.#parts.outages.over("claiming tasks");
        backoff.reset();
        if (pauseMs > 0) await this.#sleep(pauseMs);
      } catch (error) {
        // The claim may have been committed and only its reply lost: look for tasks that are ours without our knowing.
        this.#mayOwnUnknown = true;
        this.#isArmed = false;
        this.#cursors.wantFullLook();
        this.#parts.outages.noticed(error, "claiming tasks");
        await backoff.pause(this.#stopping.signal);
      }
    }
  }

  /** Takes what it can; returns how long to sleep unless woken. */
  async #round(): Promise<number> {
    if (this.#mayOwnUnknown) await this.#adopt();
    const demand = this.#parts.demand();
    if (demand.run + demand.prefetch <= 0) return this.#parts.pollMs;
    const claimed = await this.#claim(demand);
    if (claimed >= demand.run + demand.prefetch) return 0;
    return this.#becomeIdle();
  }

  /** Asks to be told, then looks once more: what was put in before the bell was armed has not rung it. */
  async #becomeIdle(): Promise<number> {
    const { database, names, queues, pollMs, notices } = this.#parts;
    if (notices.isListening && !this.#isArmed) {
      // Before the reply: the bell may ring, and unset this again, before the reply to its arming is here.
      this.#isArmed = true;
      await armBells(database, queues);
      this.#cursors.wantFullLook();
    }
    const dueMs = await readNextDueMs(database, names, queues);
    const demand = this.#parts.demand();
    if (demand.run + demand.prefetch > 0 && (await this.#claim(demand)) > 0) return 0;
    const fullLookMs = this.#cursors.msUntilFullLook(performance.now());
    return Math.max(1, Math.min(pollMs, dueMs ?? pollMs, fullLookMs ?? pollMs));
  }

  async #claim(demand: Demand): Promise<number> {
    const { database, replica, names, queues, onClaimed } = this.#parts;
    const startedMs = performance.now();
    const search = this.#cursors.begin(startedMs);
    const { id } = replica;
    const claimed = await claimTasks(database, {
      replicaId: id,
      names,
      queues,
      cursors: search.cursors,
      ...demand,
    });
    const nowMs = performance.now();
    this.#cursors.end(search, { asked: demand.run + demand.prefetch, claimed, tookMs: nowMs - startedMs, nowMs });
    if (claimed.length > 0) onClaimed(claimed, id);
    return claimed.length;
  }

  async #adopt(): Promise<void> {
    const { database, replica, known, onAdopted } = this.#parts;
    const { id } = replica;
    const adopted = await adoptClaims(database, id, known());
    this.#mayOwnUnknown = false;
    if (adopted.length > 0) onAdopted(adopted, id);
  }

  async #sleep(ms: number): Promise<void> {
    // Jittered upwards only, so that a task that is due is not looked for a moment too early.
    await delay(ms * (1 + Math.random() * 0.1), AbortSignal.any([this.#stopping.signal, this.#wake.signal]));
    if (this.#wake.signal.aborted) this.#wake = new AbortController();
    else this.#cursors.wantFullLook();
  }
}
