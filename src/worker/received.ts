/**
 * Which claims this process has had in its hands. A claim that is on record as its own, and that it does not know, can be one of two: a claim
 * whose reply was lost, so that none of its code has run; or a claim that this process has ended, and a server that lost memory has forgotten it.
 *
 * Claim ids grow. A reply therefore holds only ids that are larger than all ids received before it was asked for. So the last few replies
 * are enough to tell the two apart.
 */
import type { ClaimId, ClaimOnTask } from "../task/ids.ts";

/** A claim that was asked for, until its reply is here or has been looked for. */
export interface Asking {
  /** The largest id that had been received by then. */
  readonly after: number;
}

export class Received {
  #largest = 0;
  readonly #askings = new Set<Asking>();
  /** In the order of their ids: what came since the first of those was asked for. */
  #replies: (readonly ClaimOnTask[])[] = [];
  readonly #neverBegun = new Set<ClaimId>();

  noteAsked(): Asking {
    const asking = { after: this.#largest };
    this.#askings.add(asking);
    return asking;
  }

  noteAnswer(asking: Asking, claimed: readonly ClaimOnTask[]): void {
    this.#askings.delete(asking);
    this.#note(claimed);
  }

  /** These were in hand, and none of their code has run. */
  noteNeverBegun(claims: readonly ClaimOnTask[]): void {
    for (const { claimId } of claims) this.#neverBegun.add(claimId);
  }

  /** What has never begun by now: the look for lost replies that begins here finds these, where they are still on record. */
  neverBegun(): readonly ClaimId[] {
    return [...this.#neverBegun];
  }

  /**
   * The replies that were lost have been looked for: the claims that were found are ours, and known from now on. What was noted as never begun
   * while the look was under way stays noted (`before`: what had been noted when it began), since the next look may find it.
   */
  settle(found: readonly ClaimOnTask[], before: readonly ClaimId[]): void {
    this.#askings.clear();
    for (const claimId of before) this.#neverBegun.delete(claimId);
    for (const { claimId } of found) this.#neverBegun.delete(claimId);
    this.#note(found);
  }

  /** Whether this process has had that claim, and may have run its task. */
  had(claimId: ClaimId): boolean {
    if (this.#neverBegun.has(claimId)) return false;
    return (
      Number(claimId) <= this.#since() || this.#replies.some((reply) => reply.some((one) => one.claimId === claimId))
    );
  }

  #note(claimed: readonly ClaimOnTask[]): void {
    const last = claimed.at(-1);
    if (last) {
      this.#replies.push(claimed);
      this.#largest = Math.max(this.#largest, Number(last.claimId));
    }
    const since = this.#since();
    this.#replies = this.#replies.filter((reply) => Number(reply.at(-1)?.claimId) > since);
  }

  #since(): number {
    let since = this.#largest;
    for (const { after } of this.#askings) since = Math.min(since, after);
    return since;
  }
}
