/** Giving back what was claimed and has not begun. */
import { type Backoff, createBackoff } from "../database/backoff.ts";
import type { Database } from "../database/database.ts";
import { inHalves } from "../database/in-halves.ts";
import { isAboutSomeRows } from "../database/transient.ts";
import { adoptClaims, type ClaimedTask, releaseUnbegun } from "../sql/claims.ts";
import { endHeldClaims } from "../sql/outcomes.ts";
import { toErrorRecord } from "../task/error-record.ts";
import { WorkerStoppingError } from "../task/errors.ts";
import type { ClaimOnTask, ReplicaId } from "../task/ids.ts";
import { tellApart } from "./forgotten-ends.ts";
import type { Hand } from "./hand.ts";
import type { Outages } from "./outages.ts";
import type { Received } from "./received.ts";
import type { Lot } from "./reserve.ts";

/**
 * Until it is known that they were given back, also where the reply is lost: until then they are neither begun nor taken for claims that
 * nobody knows of, since a statement that is thought to be lost may be carried out later.
 */
export class GivingBack {
  readonly #parts: { readonly database: Database; readonly hand: Hand; readonly outages: Outages };
  readonly #givingUp = new AbortController();
  readonly #underWay = new Set<Promise<unknown>>();

  constructor(parts: { database: Database; hand: Hand; outages: Outages }) {
    this.#parts = parts;
  }

  /** Resolves when others may have them, but for those that the database refuses or somebody has locked: these are tried again until they are given back. */
  async giveBack(lots: readonly Pick<Lot, "tasks" | "under">[]): Promise<void> {
    this.#parts.hand.releasing(lots.flatMap(({ tasks }) => tasks));
    const given = this.#giveBackAll(lots);
    this.#track(given);
    await given;
  }

  /** Resolves when all were given back. */
  async idle(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
  }

  /** Stops trying. */
  giveUp(): void {
    this.#givingUp.abort();
  }

  async #giveBackAll(lots: readonly Pick<Lot, "tasks" | "under">[]): Promise<void> {
    const owners = new Set(lots.map(({ under }) => under));
    for (const owner of owners) {
      const tasks = lots.flatMap((lot) => (lot.under === owner ? lot.tasks : []));
      if (tasks.length > 0) await this.#giveBackOf(owner, tasks);
    }
  }

  async #giveBackOf(owner: ReplicaId, tasks: readonly ClaimedTask[]): Promise<void> {
    const backoff = createBackoff({ firstMs: 50, maxMs: 2_000 });
    const answered = this.#untilAnswered(owner, tasks, backoff);
    this.#track(answered.then((left) => this.#untilGiven(owner, left, backoff)));
    await answered;
  }

  #track(work: Promise<unknown>): void {
    const tracked = work.finally(() => this.#underWay.delete(tracked));
    this.#underWay.add(tracked);
  }

  async #untilGiven(owner: ReplicaId, tasks: readonly ClaimedTask[], backoff: Backoff): Promise<void> {
    let left = tasks;
    while (left.length > 0) {
      await backoff.pause(this.#givingUp.signal);
      left = await this.#untilAnswered(owner, left, backoff);
    }
  }

  /** Tries until the database has answered. Returns those that could not be given back. */
  async #untilAnswered(
    owner: ReplicaId,
    tasks: readonly ClaimedTask[],
    backoff: Backoff,
  ): Promise<readonly ClaimedTask[]> {
    const { database, hand, outages } = this.#parts;
    while (!this.#givingUp.signal.aborted) {
      try {
        const left = await inHalves(
          tasks,
          (part) => giveBack(database, owner, part),
          // One that the database will not take, or that is locked, must not hold up the others.
          async (task, error) => {
            outages.noticed(error, "giving tasks back");
            return [task];
          },
          isAboutSomeRows,
        );
        hand.released(tasks.filter((task) => !left.includes(task)));
        if (left.length === 0) outages.over("giving tasks back");
        return left;
      } catch (error) {
        outages.noticed(error, "giving tasks back");
        await backoff.pause(this.#givingUp.signal);
      }
    }
    hand.released(tasks);
    return [];
  }
}

/**
 * Claims that a leaving replica holds without knowing: their reply was lost, and nobody has looked for them since. Claims that it has run are
 * left to recovery, and so is a claim that the database refuses to take back or that somebody has locked.
 */
export async function giveBackUnknown(
  database: Database,
  replicaId: ReplicaId,
  { known, received }: { known: readonly ClaimOnTask[]; received: Received },
): Promise<void> {
  const { unbegun } = await tellApart(database, await adoptClaims(database, replicaId, known), received);
  await inHalves(
    unbegun,
    (part) => giveBack(database, replicaId, part),
    async () => [],
    isAboutSomeRows,
  );
}

/** None of their code has run, whatever their state, so that others may have them at once and nothing is charged. None is left then. */
async function giveBack(
  database: Database,
  replicaId: ReplicaId,
  tasks: readonly Pick<ClaimedTask, "claimId" | "taskId" | "state">[],
): Promise<readonly never[]> {
  const released = new Set(await releaseUnbegun(database, tasks, replicaId));
  // Cancelled meanwhile, or lost. What is on record as claimed needs nobody who stops it.
  const left = tasks.filter((task) => task.state === "running" && !released.has(task.claimId));
  if (left.length === 0) return [];
  await endHeldClaims(
    database,
    left.map(({ claimId, taskId }) => ({
      claim: claimId,
      task: taskId,
      replica: replicaId,
      to: "pending",
      outcome: "aborted",
      error: toErrorRecord(new WorkerStoppingError(taskId)),
    })),
  );
  return [];
}
