/** The guard against mass death among hearts: by machines, and remembered in the database, so that a takeover does not start the hold anew. */
import type { RecoverySettings } from "../../config/recovery-options.ts";
import type { Database } from "../../database/database.ts";
import type { Events } from "../../events.ts";
import { raiseAlert } from "../../sql/alerts.ts";
import type { DoubtfulHeart } from "../../sql/hearts.ts";
import { beginHold, endHold } from "../../sql/recovery.ts";
import type { ReplicaId } from "../../task/ids.ts";
import { countDying, type Fleet, type MassDeathPolicy } from "../mass-death.ts";
import type { Guard, Judged } from "../source.ts";

interface GuardParts {
  readonly database: Database;
  readonly events: Events;
  readonly settings: RecoverySettings;
  readonly replica: { readonly id: ReplicaId };
}

export class MachineGuard implements Guard<DoubtfulHeart> {
  readonly policy: MassDeathPolicy;
  /** As of the beginning of this sweep. */
  isHeld = false;
  readonly #parts: GuardParts;

  constructor(parts: GuardParts) {
    this.#parts = parts;
    this.policy = parts.settings.massDeath;
  }

  count(judged: readonly Judged<DoubtfulHeart>[]): Pick<Fleet, "groups" | "dying"> {
    return countDying(
      judged.map(({ context, verdict }) => ({
        group: context.machineId ?? context.replicaId,
        groups: context.machines,
        isWell: verdict.kind === "fresh" && context.sessionFreeForMs === null,
        isGroupWell: context.isMachineWell,
      })),
    );
  }

  hold(): Promise<Pick<Fleet, "heldForMs" | "isConfirmed">> {
    return beginHold(this.#parts.database);
  }

  async tellOfHold({ groups: machines, dying, heldForMs, isConfirmed }: Fleet): Promise<void> {
    const { database, events } = this.#parts;
    const details = { machines, dying, heldForMs, isConfirmed };
    const message = `${dying} of ${machines} machines fell silent at once; recovery holds for up to ${this.policy.holdMs} ms.`;
    if (await raiseAlert(database, { kind: "mass-death", subject: "fleet", message, details }))
      events.emit("recovery.held", details);
  }

  /** The end of the sweep resolves the alert (ended-alerts.ts). */
  async release(): Promise<void> {
    const { database, events, replica } = this.#parts;
    if (!this.isHeld || !(await endHold(database))) return;
    events.emit("recovery.resumed", { replicaId: replica.id });
  }
}
