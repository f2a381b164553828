/** Somebody's open transaction has locked the row of a hold, so that an operator's word on it cannot be written. */
import { EverbeatError } from "../errors.ts";

export class HoldLockedError extends EverbeatError {
  readonly code = "HOLD_LOCKED";
  readonly kind = "not-now";

  constructor(
    /** The sources whose holds are locked. */
    readonly locked: readonly string[],
    /** Those that were confirmed all the same. */
    readonly confirmed: readonly string[],
  ) {
    const others = confirmed.length === 0 ? "Nothing was confirmed." : `Confirmed: ${confirmed.join(", ")}.`;
    super(
      `Another transaction has locked what is held (${locked.join(", ")}), in the table "hold". ${others} End that transaction, then confirm again.`,
    );
  }
}
