/**
 * The owners of unfinished tasks who are dead, have left, or are not on record: their tasks are put right in every sweep, whoever declared the death,
 * so that no race between a claim and a verdict strands one.
 */
import type { RecoverySettings } from "../config/recovery-options.ts";
import type { Database } from "../database/database.ts";
import type { Events } from "../events.ts";
import { type AbsentOwner, findAbsentOwners } from "../sql/recovery.ts";
import { readDeath } from "../task/death.ts";
import type { PassedBy } from "./passed-by.ts";
import { type LastSigns, POST_MORTEMS, PostMortems, type Told } from "./post-mortems.ts";
import { RECOVERY_OF_TASKS, recoverTasksOf } from "./recover.ts";
import type { Death } from "./recovery-action.ts";

/** How often dead replicas are asked about that no sweep of ours has met. */
const EXAMINE_EVERY_MS = 5_000;

export interface AbsentParts {
  readonly database: Database;
  readonly events: Events;
  readonly settings: RecoverySettings;
  /** What tasks and hearts said last, for the post-mortems. */
  readonly lastSigns?: LastSigns;
  readonly passingBy: (part: string) => PassedBy;
}

export class AbsentOwners {
  readonly #parts: AbsentParts;
  readonly #postMortems: PostMortems;
  readonly #passedBy: Record<"owners" | "tasks" | "postMortems", PassedBy>;
  #examinedAt = Number.NEGATIVE_INFINITY;

  constructor(parts: AbsentParts) {
    const { passingBy } = parts;
    this.#parts = parts;
    this.#postMortems = new PostMortems(parts);
    this.#passedBy = {
      owners: passingBy("owners"),
      tasks: passingBy(RECOVERY_OF_TASKS),
      postMortems: passingBy(POST_MORTEMS),
    };
  }

  /** Somebody was declared dead just now. */
  lookSoon(): void {
    this.#examinedAt = Number.NEGATIVE_INFINITY;
  }

  async recover(): Promise<void> {
    await this.#passedBy.owners.attempt("recovering the tasks of the dead", () => this.#recoverAll());
  }

  async #recoverAll(): Promise<void> {
    const owners = await findAbsentOwners(this.#parts.database);
    // Others declare deaths as well, also of those who had nothing in hand.
    const isDue = performance.now() - this.#examinedAt >= EXAMINE_EVERY_MS;
    if (owners.length > 0 || isDue) await this.#recoverThese(owners);
    else await this.#passedBy.tasks.settle();
    await this.#passedBy.owners.settle();
  }

  async #recoverThese(owners: readonly AbsentOwner[]): Promise<void> {
    this.#examinedAt = performance.now();
    const postMortems = this.#postMortems;
    const told = await postMortems.examineDead(
      owners.map(({ replicaId }) => replicaId),
      this.#passedBy.postMortems,
    );
    const passedBy = this.#passedBy.tasks;
    const recoveryOfIts = ({ replicaId }: AbsentOwner) => `the recovery of replica ${replicaId}`;
    const areAllDone = await this.#passedBy.owners.each(owners, recoveryOfIts, async (owner) => {
      const death = deathOfAbsent(owner, told.get(owner.replicaId));
      await recoverTasksOf({ ...this.#parts, random: Math.random, postMortems, passedBy }, death);
    });
    // The tasks of an owner that was passed by were not met, and are neither done nor gone.
    if (areAllDone) await passedBy.settle();
  }
}

/** As it was put on record when it was declared dead, and what was found out since. */
function deathOfAbsent(owner: AbsentOwner, told: Told | undefined): Death {
  const { replicaId, machineId, hostname, status, cameBack } = owner;
  const death = readDeath(owner.death);
  return {
    ...death,
    replicaId,
    machineId: machineId ?? undefined,
    hostname: hostname ?? undefined,
    because: status === "dead" ? death.because : status,
    ...(cameBack ? { cameBack } : {}),
    ...(told ? { probableCause: told.cause, sentence: told.sentence } : {}),
  };
}
