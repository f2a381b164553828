/** Of recovery by hand of both states, the running tasks were recovered, and then something went wrong with the claimed ones. */
import { type Advice, advise } from "../advice.ts";
import { EverbeatError } from "../errors.ts";
import { toErrorRecord } from "../task/error-record.ts";
import type { TaskId } from "../task/ids.ts";

export class HalfRecoveredError extends EverbeatError {
  readonly code = "HALF_RECOVERED";
  readonly kind = "conflict";

  constructor(
    /** Those that were failed. */
    readonly failed: readonly TaskId[],
    cause: unknown,
  ) {
    super(
      `${failed.length} running tasks were failed (${failed.join(", ")}), and the claimed ones were not requeued: ${toErrorRecord(cause).message}. Recover again to go on with the rest.`,
      { cause },
    );
  }

  override get advice(): readonly Advice[] {
    return [advise("See which are left.", "recovery.stale", {})];
  }
}
