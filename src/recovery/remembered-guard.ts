/**
 * A guard whose hold is remembered in the database under the name of its source: whoever sweeps the source next goes on with the same hold, an
 * operator can confirm it, and no other source is held by it. Any source of silence can have one.
 */
import { formatDuration } from "../config/duration.ts";
import type { Database } from "../database/database.ts";
import type { Events } from "../events.ts";
import { raiseAlert } from "../sql/alerts.ts";
import { beginHold, endHold } from "../sql/holds.ts";
import type { ReplicaId } from "../task/ids.ts";
import { countDying, type DoubtfulMember, type Fleet, type MassDeathPolicy } from "./mass-death.ts";
import type { Guard, Judged } from "./source.ts";

export interface GuardParts {
  readonly database: Database;
  readonly events: Events;
  /** Who sweeps. */
  readonly replica: { readonly id: ReplicaId };
}

/** What a source says of itself. */
export interface Guarded<Context> {
  /** Its name, which stays the same: an operator confirms its hold by this. It is made like the name of a task (`isName`). */
  readonly source: string;
  /** What fails independently of each other, in the plural: "machines". */
  readonly counted: string;
  /** What its alert is about: itself, unless it says otherwise. */
  readonly alertSubject?: string;
  readonly policy: MassDeathPolicy;
  /** To which of them this one belongs, and how many there are. */
  memberOf(judged: Judged<Context>): DoubtfulMember;
}

export class RememberedGuard<Context> implements Guard<Context> {
  readonly policy: MassDeathPolicy;
  /** As of the beginning of this sweep, where the source has read it there. Undefined: each sweep without a mass death asks the database. */
  isHeld: boolean | undefined;
  readonly #parts: GuardParts;
  readonly #guarded: Guarded<Context>;

  constructor(parts: GuardParts, guarded: Guarded<Context>) {
    this.#parts = parts;
    this.#guarded = guarded;
    this.policy = guarded.policy;
  }

  count(judged: readonly Judged<Context>[]): Pick<Fleet, "groups" | "dying"> {
    return countDying(judged.map((one) => this.#guarded.memberOf(one)));
  }

  hold(): Promise<Pick<Fleet, "heldForMs" | "isConfirmed">> {
    return beginHold(this.#parts.database, this.#guarded);
  }

  async tellOfHold({ groups, dying, heldForMs, isConfirmed }: Fleet): Promise<void> {
    const { database, events } = this.#parts;
    const { source, counted, alertSubject: subject = source } = this.#guarded;
    const details = { source, counted, groups, dying, heldForMs, isConfirmed };
    const message = `${dying} of ${groups} ${counted} fell silent at once; recovery (${source}) is held for up to ${formatDuration(this.policy.holdMs)}.`;
    if (await raiseAlert(database, { kind: "mass-death", subject, message, details, part: source }))
      events.emit("recovery.held", details);
  }

  /** The alert is not resolved here, where verdicts would wait for it: the end of the next sweep over the hearts does so (ended-alerts.ts). */
  async release(): Promise<void> {
    const { database, events, replica } = this.#parts;
    const { source } = this.#guarded;
    if (this.isHeld === false || !(await endHold(database, source))) return;
    events.emit("recovery.resumed", { source, replicaId: replica.id });
  }
}
