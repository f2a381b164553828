/** Giving back what was claimed and has not begun. */
import { createBackoff } from "../database/backoff.ts";
import type { Database } from "../database/database.ts";
import { inHalves } from "../database/in-halves.ts";
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
  readonly #underWay = new Set<Promise<void>>();

  constructor(parts: { database: Database; hand: Hand; outages: Outages }) {
    this.#parts = parts;
  }

  /** Resolves when others may have them. */
  async giveBack(lots: readonly Pick<Lot, "tasks" | "under">[]): Promise<void> {
    const given = this.#giveBack(lots);
    this.#underWay.add(given);
    await given;
    this.#underWay.delete(given);
  }

  /** Resolves when all were given back. */
  async idle(): Promise<void> {
    await Promise.all(this.#underWay);
  }

  /** Stops trying. */
  giveUp(): void {
    this.#givingUp.abort();
  }

  async #giveBack(lots: readonly Pick<Lot, "tasks" | "under">[]): Promise<void> {
    const claims = this.#parts.hand.releasing(lots.flatMap(({ tasks }) => tasks));
    const owners = new Set(lots.map(({ under }) => under));
    for (const owner of owners) {
      const tasks = lots.flatMap((lot) => (lot.under === owner ? lot.tasks : []));
      if (tasks.length > 0) await this.#repeat(owner, tasks);
    }
    this.#parts.hand.released(claims);
  }

  async #repeat(owner: ReplicaId, tasks: readonly ClaimedTask[]): Promise<void> {
    const { database, outages } = this.#parts;
    const backoff = createBackoff({ firstMs: 50, maxMs: 2_000 });
    let left = tasks;
    while (!this.#givingUp.signal.aborted) {
      try {
        left = await inHalves(
          left,
          (part) => giveBack(database, owner, part),
          // One that the database will not take must not hold up the others.
          async (task, error) => {
            outages.noticed(error, "giving tasks back");
            return [task];
          },
        );
        if (left.length > 0) {
          await backoff.pause(this.#givingUp.signal);
          continue;
        }
        outages.over("giving tasks back");
        return;
      } catch (error) {
        outages.noticed(error, "giving tasks back");
        await backoff.pause(this.#givingUp.signal);
      }
    }
  }
}

/**
 * Claims that a leaving replica holds without knowing: their reply was lost, and nobody has looked for them since. Claims that it has run are
 * left to recovery, and so is a claim that the database refuses to take back.
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
