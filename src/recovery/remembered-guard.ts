/**
 * A guard whose hold is remembered in the database under the name of its source: whoever sweeps the source next goes on with the same hold, an
 * operator can confirm it, and no other source is held by it. Any source of silence can have one.
 */
import { formatDuration } from "../config/duration.ts";
import { Problems } from "../config/problems.ts";
import type { Database } from "../database/database.ts";
import type { Events } from "../events.ts";
import { raiseAlert } from "../sql/alerts.ts";
import { beginHold, endHold } from "../sql/holds.ts";
import type { ReplicaId } from "../task/ids.ts";
import { isName } from "../task/settings.ts";
import { holdKeptMs } from "./limits.ts";
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
  /** Its name, which stays the same: an operator confirms its hold by this, and its alert is about this. It is made like the name of a task (`isName`). */
  readonly source: string;
  /** What fails independently of each other, in the plural: "machines". */
  readonly counted: string;
  /** How often it is swept: a hold that is not renewed for many times as long was left behind. */
  readonly everyMs: number;
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
  readonly #keptMs: number;
  /** When this process held last, and since when it has been held by what was found then. By the clock of this process. */
  #last: { readonly atMs: number; readonly sinceMs: number } | undefined;

  constructor(parts: GuardParts, guarded: Guarded<Context>) {
    const problems = new Problems();
    isName(guarded.source, "source", problems);
    problems.throwIfAny("A source of silence");
    this.#parts = parts;
    this.#guarded = guarded;
    this.policy = guarded.policy;
    this.#keptMs = holdKeptMs(guarded.everyMs);
  }

  count(judged: readonly Judged<Context>[]): Pick<Fleet, "groups" | "dying"> {
    return countDying(judged.map((one) => this.#guarded.memberOf(one)));
  }

  async hold(): Promise<Pick<Fleet, "heldForMs" | "isConfirmed">> {
    const { source, counted } = this.#guarded;
    const found = await beginHold(this.#parts.database, { source, counted, keptMs: this.#keptMs });
    const atMs = performance.now();
    const own = this.#last && atMs - this.#last.atMs <= this.#keptMs ? atMs - this.#last.sinceMs : 0;
    // Where the row is locked, the hold goes on by what this process knows of it: no lock makes it last for longer.
    const held = found ?? { heldForMs: own, isConfirmed: false };
    this.#last = { atMs, sinceMs: atMs - held.heldForMs };
    return held;
  }

  async tellOfHold({ groups, dying, heldForMs, isConfirmed }: Fleet): Promise<void> {
    const { database, events } = this.#parts;
    const { source, counted } = this.#guarded;
    const details = { source, counted, groups, dying, heldForMs, isConfirmed };
    const message = `${dying} of ${groups} ${counted} fell silent at once; recovery (${source}) is held for up to ${formatDuration(this.policy.holdMs)}.`;
    if (await raiseAlert(database, { kind: "mass-death", subject: source, message, details, part: source }))
      events.emit("recovery.held", details);
  }

  /** The alert is not resolved here, where verdicts would wait for it: the end of the next sweep over the hearts does so (ended-alerts.ts). */
  async release(): Promise<void> {
    this.#last = undefined;
    const { database, events, replica } = this.#parts;
    const { source } = this.#guarded;
    if (this.isHeld === false || !(await endHold(database, source))) return;
    events.emit("recovery.resumed", { source, replicaId: replica.id });
  }
}
