/** How many looks in a row have passed by something that was locked. One that goes on where another was cut short is the same look. */
import type { Found } from "../sql/work-round.ts";
import { pauseWhileHeldUpMs } from "./after-look.ts";

export class HeldUpLooks {
  #looks = 0;
  #isOnTheWay = false;

  note({ isHeldUp, isCutShort }: Found, isFullLook: boolean): void {
    const wasHeldUp = isHeldUp || this.#isOnTheWay;
    this.#isOnTheWay = isCutShort;
    if (wasHeldUp && !isCutShort) this.#looks++;
    // Only a full look comes to what was passed by before. A search from the cursors begins behind it.
    else if (!wasHeldUp && isFullLook) this.#looks = 0;
  }

  /** Until the next look: nobody tells when something is not locked any more. Infinite where nothing is. */
  pauseMs(): number {
    return this.#looks > 0 ? pauseWhileHeldUpMs(this.#looks) : Number.POSITIVE_INFINITY;
  }
}
